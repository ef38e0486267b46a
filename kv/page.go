package kv

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrCursor means that a cursor is not one that Page gave out.
var ErrCursor = errors.New("cursor is not valid")

const (
	// maxExamined bounds the messages one page of a list passes over because a
	// name is not theirs; the page then ends early and its cursor goes on.
	maxExamined = 20_000
	// The windows in which a stream is looked through grow: what is dense is
	// near, and what is rare takes few of them.
	minWindow  = 64
	maxWindow  = 1 << 16
	windowGrow = 4
	scanBatch  = 1000
)

// lister reads a stream backwards. The server picks the subjects, so that what
// belongs to others is not even sent, and keep picks by headers.
type lister struct {
	js       jetstream.JetStream
	stream   jetstream.Stream
	subjects []string
	keep     func(h nats.Header) bool // nil: all
	// want is about how many messages are wanted.
	want int
}

// backwards calls visit with the sequence of each message that is picked, from
// the end of the stream, or from a cursor, to its beginning, until visit
// returns false or too many were passed over. It returns the cursor at which
// to go on, "" at the beginning.
func (l *lister) backwards(ctx context.Context, cursor string, visit func(context.Context, uint64) (bool, error)) (string, error) {
	first, seq, err := bounds(ctx, l.stream)
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
	passed := 0
	for window := uint64(max(l.want+1, minWindow)); seq >= first && seq > 0; window = min(window*windowGrow, max(window, maxWindow)) {
		low := first
		if seq-first >= window {
			low = seq - window + 1
		}
		picked, n, err := l.between(ctx, low, seq)
		if err != nil {
			return "", err
		}
		for _, at := range slices.Backward(picked) {
			more, err := visit(ctx, at)
			if err != nil {
				return "", err
			}
			if !more {
				return formatCursor(at), nil
			}
		}
		if passed += n - len(picked); low > first && passed >= maxExamined {
			return formatCursor(low - 1), nil
		}
		seq = low - 1
	}
	return "", nil
}

// between returns the picked messages of a range, oldest first, and how many
// the server sent.
func (l *lister) between(ctx context.Context, low, high uint64) (picked []uint64, examined int, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sc, err := openScan(ctx, l.js, l.stream.CachedInfo().Config.Name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: low, FilterSubjects: l.subjects,
	})
	if err != nil {
		return nil, 0, err
	}
	defer sc.close()
	for past := false; !past; {
		n, err := sc.next(ctx, int(min(high-low+1, scanBatch)), func(h nats.Header, seq uint64) {
			switch {
			case seq > high:
				past = true
				return
			case l.keep == nil || l.keep(h):
				picked = append(picked, seq)
			}
			examined++
		})
		if err != nil {
			return nil, 0, err
		}
		past = past || n == 0
	}
	return picked, examined, nil
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
