package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/task"
)

const (
	// quotaDay is how far back tasks count, quotaStep how exactly: a task
	// counts for a day and up to a step more.
	quotaDay  = 24 * time.Hour
	quotaStep = 10 * time.Minute
)

// QuotaKey is the key of what an installation had of its daily cap.
func QuotaKey(installation int64) string { return Key(PrefixQuota, num(installation)) }

// quotaRecord is a value of bucket STATE under quota.<installation>: how many
// tasks were taken in each step of the last day that has any.
type quotaRecord struct {
	V     int         `json:"v"`
	Taken []quotaTake `json:"taken"`
}

// quotaTake counts the tasks of one step, which is named by its number since
// 1970.
type quotaTake struct {
	Step int64 `json:"step"`
	N    int   `json:"n"`
}

// Quota counts the tasks of installations that have a daily cap, over all
// processes (DT-96). A task is taken before its delivery is stored: a crash in
// between counts one too many, never one too few.
type Quota struct {
	b   *Bucket
	now func() time.Time
}

// OpenQuota binds to bucket STATE, which must exist.
func OpenQuota(ctx context.Context, js jetstream.JetStream, now func() time.Time) (*Quota, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &Quota{b: b, now: now}, nil
}

// SetHooks sets failpoints; tests only.
func (q *Quota) SetHooks(h *Hooks) { q.b.Hooks = h }

// Take counts a task of an installation, unless it had limit of them within
// the last day. giveBack takes the count back; nil if ok is false. Any error
// means that nobody knows: nothing is to be accepted on it.
func (q *Quota) Take(ctx context.Context, installation int64, limit int) (giveBack func(context.Context) error, ok bool, err error) {
	step := q.now().UnixNano() / int64(quotaStep)
	full := false
	err = q.change(ctx, installation, true, func(r *quotaRecord) bool {
		r.drop(step - int64(quotaDay/quotaStep))
		if full = r.total() >= limit; full {
			return false
		}
		r.add(step, 1)
		return true
	})
	if err != nil || full {
		return nil, false, err
	}
	return func(ctx context.Context) error {
		return q.change(ctx, installation, false, func(r *quotaRecord) bool { return r.add(step, -1) })
	}, true, nil
}

// change applies f to the record by compare-and-set until it is decided or ctx
// ends; f returns whether there is something to write. Nobody knows what became
// of a write whose answer is lost. With again it is repeated on what is there
// then, which only a taking may be: the count is one too high at worst. A
// giving back that was repeated could make it too low, so it is ErrUnknown.
func (q *Quota) change(ctx context.Context, installation int64, again bool, f func(*quotaRecord) bool) error {
	key := QuotaKey(installation)
	for {
		r, rev, err := q.get(ctx, key)
		if err != nil {
			return fmt.Errorf("read quota of installation %d: %w", installation, err)
		}
		if !f(&r) {
			return nil
		}
		data, err := json.Marshal(&r)
		if err != nil {
			return fmt.Errorf("encode quota: %w", err)
		}
		if rev == 0 {
			_, err = q.b.Create(ctx, key, data, quotaDay+2*quotaStep)
		} else {
			_, err = q.b.Update(ctx, key, data, rev, quotaDay+2*quotaStep)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, !errors.Is(err, ErrConflict) && !errors.Is(err, ErrExists) && !(again && errors.Is(err, ErrUnknown)):
			return fmt.Errorf("write quota of installation %d: %w", installation, err)
		}
	}
}

func (q *Quota) get(ctx context.Context, key string) (quotaRecord, uint64, error) {
	r := quotaRecord{V: task.Version}
	e, err := q.b.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return r, 0, nil
	}
	if err == nil {
		err = task.Decode(e.Value, &r, &r.V)
	}
	return r, e.Revision, err
}

// drop forgets the steps before first.
func (r *quotaRecord) drop(first int64) {
	kept := r.Taken[:0]
	for _, t := range r.Taken {
		if t.Step >= first {
			kept = append(kept, t)
		}
	}
	r.Taken = kept
}

func (r *quotaRecord) total() int {
	n := 0
	for _, t := range r.Taken {
		n += t.N
	}
	return n
}

// add changes the count of a step by n, and reports whether it could: none is
// less than nothing.
func (r *quotaRecord) add(step int64, n int) bool {
	for i := range r.Taken {
		if t := &r.Taken[i]; t.Step == step {
			t.N += n
			return t.N >= 0
		}
	}
	if n > 0 {
		r.Taken = append(r.Taken, quotaTake{step, n})
	}
	return n > 0
}
