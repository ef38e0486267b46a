package executor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

func (e *Executor) logPath(id task.ID, attempt int) string {
	return filepath.Join(e.cfg.LogDir, string(id), strconv.Itoa(attempt)+".log")
}

// OpenLog opens the log of an attempt, 0 for the newest one; of a running
// attempt it holds what there is so far. Where there is none the error is
// fs.ErrNotExist, for an id that is none ErrTaskID.
func (e *Executor) OpenLog(id task.ID, attempt int) (io.ReadCloser, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if attempt == 0 {
		entries, err := os.ReadDir(filepath.Join(e.cfg.LogDir, string(id)))
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		for _, d := range entries {
			name, ok := strings.CutSuffix(d.Name(), ".log")
			if n, err := strconv.Atoi(name); ok && err == nil {
				attempt = max(attempt, n)
			}
		}
	}
	if attempt < 1 {
		return nil, fmt.Errorf("open log of attempt %d: %w", attempt, fs.ErrNotExist)
	}
	f, err := os.OpenFile(e.logPath(id, attempt), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// RemoveLogs removes all logs of a task; there need not be any.
func (e *Executor) RemoveLogs(id task.ID) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(e.cfg.LogDir, string(id))); err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	return nil
}

// SweepLogs removes the logs of tasks that gone reports, if nothing was added
// to them for age, and returns of how many.
func (e *Executor) SweepLogs(age time.Duration, gone func(id task.ID) bool) (int, error) {
	tasks, err := os.ReadDir(e.cfg.LogDir)
	if err != nil {
		return 0, fmt.Errorf("sweep logs: %w", err)
	}
	n := 0
	var errs []error
	for _, t := range tasks {
		info, err := t.Info()
		if err != nil || !t.IsDir() || checkID(task.ID(t.Name())) != nil || e.cfg.Now().Sub(info.ModTime()) < age || !gone(task.ID(t.Name())) {
			continue
		}
		if err := e.RemoveLogs(task.ID(t.Name())); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// output takes what a command writes: redacted and cut into the attempt's
// log, its end into memory. It never blocks the command and never fails it:
// a log that cannot be written is said in err.
type output struct {
	*redact.Writer
	log   *os.File
	room  int64 // what the log may still take
	max   int64
	total int64 // what came in, redacted
	tail  []byte
	size  int
	err   error
}

func (e *Executor) openOutput(id task.ID, attempt int, r *redact.Redactor) (*output, error) {
	path := e.logPath(id, attempt)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	o := &output{log: f, room: e.cfg.MaxOutput, max: e.cfg.MaxOutput, size: e.cfg.TailBytes}
	o.Writer = r.Writer((*sink)(o))
	return o, nil
}

// sink is the output behind the redaction.
type sink output

// Write keeps what there is room for and never returns an error.
func (s *sink) Write(p []byte) (int, error) {
	s.total += int64(len(p))
	s.keepTail(p)
	switch {
	case s.room < 0 || s.err != nil:
	case int64(len(p)) <= s.room:
		s.room -= int64(len(p))
		_, s.err = s.log.Write(p)
	default:
		note := fmt.Sprintf("\n[belay: the output goes on; this log keeps its first %d bytes]\n", s.max)
		_, s.err = s.log.Write(append(p[:s.room:s.room], note...))
		s.room = -1
	}
	return len(p), nil
}

func (s *sink) keepTail(p []byte) {
	if len(p) >= s.size {
		s.tail = append(s.tail[:0], p[len(p)-s.size:]...)
		return
	}
	if over := len(s.tail) + len(p) - s.size; over > 0 {
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
	s.tail = append(s.tail, p...)
}

// close flushes and closes the log.
func (o *output) close() error {
	_ = o.Writer.Close()
	if err := o.log.Close(); o.err == nil {
		o.err = err
	}
	if o.err != nil {
		return fmt.Errorf("write log: %w", o.err)
	}
	return nil
}

// end returns the end of the output as valid UTF-8.
func (o *output) end() string {
	b := o.tail
	if o.total > int64(len(b)) { // the start is a cut, maybe inside a rune
		for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
			b = b[1:]
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
