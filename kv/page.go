package kv

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrCursor means that a cursor is not one that Page gave out.
var ErrCursor = errors.New("cursor is not valid")

// maxExamined bounds the messages one page of a filtered list looks at; the
// page then ends early and its cursor goes on from there.
const maxExamined = 2000

// backwards calls visit with each sequence of a stream from its end, or from a
// cursor, to its beginning, until visit returns false or enough were examined.
// It returns the cursor at which to go on, "" at the beginning.
func backwards(ctx context.Context, s jetstream.Stream, cursor string, visit func(context.Context, uint64) (bool, error)) (string, error) {
	first, seq, err := bounds(ctx, s)
	if err != nil {
		return "", err
	}
	if cursor != "" {
		c, err := parseCursor(cursor)
		if err != nil {
			return "", err
		}
		seq = min(seq, c)
	}
	for n := 0; seq >= first && seq > 0; seq-- {
		if n == maxExamined {
			return formatCursor(seq), nil
		}
		n++
		more, err := visit(ctx, seq)
		if err != nil {
			return "", err
		}
		if !more {
			return formatCursor(seq), nil
		}
	}
	return "", nil
}

func bounds(ctx context.Context, s jetstream.Stream) (first, last uint64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("inspect stream: %w", classify(err))
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

func formatCursor(seq uint64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendUint(nil, seq, 10))
}

func parseCursor(s string) (uint64, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, ErrCursor
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, ErrCursor
	}
	return n, nil
}

// sleep waits for d and reports whether ctx lasted so long.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
