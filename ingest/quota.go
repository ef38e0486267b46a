package ingest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// giveBackTimeout bounds how long a count is tried to be taken back; one that
// stays is one too many, which errs on the safe side.
const giveBackTimeout = 2 * time.Second

// keep stores a routed delivery. A task over its installation's daily cap is
// recorded as ignored (DT-96). It is counted before it is stored, and given
// back if it turns out that nothing new was: a delivery that came before keeps
// its first answer. With over, nothing is stored of a task over the cap, and
// its error is returned.
func (s *Server) keep(ctx context.Context, d task.Delivery, over func() error) (kv.Accepted, error) {
	if d.Task == nil || s.o.Quotas == nil {
		return s.o.Log.Accept(ctx, d)
	}
	giveBack, ok, err := s.o.Quotas.Take(ctx, d.InstallationID)
	if err != nil {
		return kv.Accepted{}, err
	}
	if !ok && over != nil {
		return kv.Accepted{}, over()
	}
	if !ok {
		d.Task, d.Routing = nil, task.Ignored(task.QuotaExceeded)
	}
	acc, err := s.o.Log.Accept(ctx, d)
	if giveBack != nil && (err == nil && acc.Duplicate || errors.Is(err, kv.ErrFull) || errors.Is(err, kv.ErrReused) || errors.Is(err, kv.ErrTooLarge)) {
		bctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		if berr := giveBack(bctx); berr != nil {
			s.warn("quota", "a task that was not accepted stays counted for a day", slog.String("err", berr.Error()))
		}
	}
	return acc, err
}
