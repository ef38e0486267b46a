package githubapp

import (
	"context"
	"sync"
)

// keyed is a lock for each key, kept only while it is wanted.
type keyed struct {
	mu sync.Mutex
	of map[string]*keyedLock
}

type keyedLock struct {
	turn    chan struct{}
	waiting int
}

func newKeyed() *keyed { return &keyed{of: map[string]*keyedLock{}} }

// lock waits for the key; unlock must be called if err is nil.
func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	l := k.of[key]
	if l == nil {
		l = &keyedLock{turn: make(chan struct{}, 1)}
		k.of[key] = l
	}
	l.waiting++
	k.mu.Unlock()
	done := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.waiting--; l.waiting == 0 {
			delete(k.of, key)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}
