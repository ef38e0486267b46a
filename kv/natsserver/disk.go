package natsserver

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// probeSize is how much has to fit on the disk for a start, in bytes. It is
// several times what nats-server writes to create its streams.
const probeSize = 256 << 10

// makeDir makes the data directory. An existing one keeps its permissions:
// what is secret in it is protected by those of the files.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskError(dir, err)
	}
	return nil
}

// probe writes a file below dir, syncs and removes it. Only a real write finds
// a full disk, a read-only mount and a broken volume alike; nats-server would
// notice them at the first message.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return diskError(dir, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, probeSize))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return diskError(dir, err)
	}
	return nil
}

// writeFile puts data into dir/name with mode 0600 so that a crash leaves the
// whole file or none.
func writeFile(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// diskError says what keeps belay from writing to dir.
func diskError(dir string, err error) error {
	next := "check its path and permissions, or set another storage.dir"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		next = "free some space, or set another storage.dir"
	case errors.Is(err, syscall.EROFS):
		next = "mount it writable, or set another storage.dir"
	}
	return fail(ErrDisk, err, "storage.dir %s cannot be written: %v: %s", dir, err, next)
}
