package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
