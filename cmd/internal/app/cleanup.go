package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// partingTimeout bounds a step that waits for the store: what it has not
// written by then comes again, or is counted as lost. A store that is gone
// must not hold a stop up (J30).
const (
	partingTimeout = 3 * time.Second
	// hurriedTimeout is that bound when ctx has ended before: a store that
	// answers needs no longer.
	hurriedTimeout = time.Second
)

// cleanups are the named steps that undo a start, last in, first out.
type cleanups struct {
	steps []cleanup
}

type cleanup struct {
	name string
	f    func(ctx context.Context) error
}

func (c *cleanups) push(name string, f func(ctx context.Context) error) {
	c.steps = append(c.steps, cleanup{name, f})
}

// parting bounds a step by partingTimeout, or by hurriedTimeout if ctx has ended.
func parting(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		d := partingTimeout
		if ctx.Err() != nil {
			d = hurriedTimeout
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
		defer cancel()
		return f(ctx)
	}
}

// run undoes everything, whatever fails, and says which step did.
func (c *cleanups) run(ctx context.Context, log *slog.Logger) error {
	var errs []error
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		log.Debug("stopping", "step", s.name)
		if err := s.f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
		}
	}
	c.steps = nil
	return errors.Join(errs...)
}
