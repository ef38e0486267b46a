package natsserver

import (
	"errors"
	"fmt"
)

// The kinds of error that Start returns. Tell them apart with errors.Is; the
// error itself is one line for a person, with what to do next.
var (
	// ErrConfig means that nats.conf cannot be read or cannot work.
	ErrConfig = errors.New("nats configuration")
	// ErrPortTaken means that a port in nats.conf is used by another process.
	ErrPortTaken = errors.New("port taken")
	// ErrDirTaken means that another server holds the data directory.
	ErrDirTaken = errors.New("data directory taken")
	// ErrDisk means that the data directory cannot be made or written.
	ErrDisk = errors.New("data directory not writable")
	// ErrStore means that nats-server did not come up on its store: the store
	// is damaged, or it takes longer to recover than StartTimeout.
	ErrStore = errors.New("nats store")
)

// startError is one line for a person, which is also of a kind and may have a
// cause.
type startError struct {
	kind  error
	cause error
	line  string
}

// fail makes an error of a kind. The line must say all: neither kind nor cause
// are printed.
func fail(kind, cause error, format string, args ...any) error {
	return &startError{kind: kind, cause: cause, line: fmt.Sprintf(format, args...)}
}

// Error returns the line.
func (e *startError) Error() string { return e.line }

// Unwrap makes errors.Is find both the kind and the cause.
func (e *startError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}
