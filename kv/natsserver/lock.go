package natsserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockFile is the file below the data directory that is locked.
const lockFile = "lock"

const (
	// lockWait is how long a lock that is held is waited for.
	lockWait = 2 * time.Second
	lockPoll = 10 * time.Millisecond
)

// takeLock locks dir for this process. The lock goes with the returned file:
// it ends when that is closed, and when the process dies.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, diskError(dir, err)
	}
	err = flock(f)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, fail(ErrDirTaken, err,
			"storage.dir %s is in use by another belay%s: stop that one, or set another storage.dir", dir, holder(f))
	}
	if err == nil {
		err = writePID(f)
	}
	if err != nil {
		f.Close()
		return nil, diskError(dir, err)
	}
	return f, nil
}

// Lock takes the data directory as Start does, without a server: nothing else
// can start on it until unlock is called. The directory is made (0700) when it
// is not there. Its errors are Start's.
func Lock(dir string) (unlock func() error, err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	f, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	return func() error { return giveLock(f) }, nil
}

// flock waits for the lock for lockWait: a belay that was killed while it
// started a command leaves a copy of its lock with that, until its exec.
func flock(f *os.File) error {
	for over := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(over) {
			return err
		}
	}
}

// giveLock ends the lock. Closing alone would not: a process that is being
// started has a copy of the file until its exec.
func giveLock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// writePID replaces the content of the lock file by this process's id.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder reads the id of the process that holds the lock, as text to be
// appended to a message; empty when the file does not tell.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
