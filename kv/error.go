package kv

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

// Kinds of store errors; test with errors.Is.
var (
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("not found")
	// ErrExists: Create found a record under the key.
	ErrExists = errors.New("exists already")
	// ErrConflict: another write came between the read and this one; reread.
	ErrConflict = errors.New("lost a compare-and-set")
	// ErrFull: the store has no room; nothing was written.
	ErrFull = errors.New("store is full")
	// ErrTooLarge: the value exceeds the limit of a message; a retry cannot help.
	ErrTooLarge = errors.New("record is too large")
	// ErrNewer: the record was written by a newer belay and is left alone.
	ErrNewer = task.ErrNewer
	// ErrCorrupt: the record cannot be decoded and is left alone.
	ErrCorrupt = task.ErrCorrupt
	// ErrUnknown: no answer came; the write may or may not have happened.
	ErrUnknown = errors.New("outcome unknown")
	// ErrReused: a delivery id came again with another body (409).
	ErrReused = errors.New("delivery id reused with another body")
)

// JetStream's own error codes that the stores tell apart (DESIGN §4). Any
// other, such as 10158 (the same message id is in flight), is ErrUnknown.
const (
	codeWrongLastSequence    jetstream.ErrorCode = 10071
	codeWrongLastSeqConstant jetstream.ErrorCode = 10164
	codeStoreFull            jetstream.ErrorCode = 10077
	codeInsufficient         jetstream.ErrorCode = 10023
	codeAccountExceeded      jetstream.ErrorCode = 10002
	codeStorageExceeded      jetstream.ErrorCode = 10047
	codeMsgTooLarge          jetstream.ErrorCode = 10054
)

// classify maps an error of nats.go to one of the kinds, keeping the cause.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case codeWrongLastSequence, codeWrongLastSeqConstant:
			return fmt.Errorf("%w: %w", ErrConflict, err)
		case codeStoreFull, codeInsufficient, codeAccountExceeded, codeStorageExceeded:
			return fmt.Errorf("%w: %w", ErrFull, err)
		case codeMsgTooLarge:
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		case jetstream.JSErrCodeMessageNotFound:
			return fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
