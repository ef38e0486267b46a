package consumers

import (
	"context"
	"errors"
	"fmt"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// uninstall removes what belay keeps of an installation that was deleted:
// records become tombstones without any text, pointers and older deliveries
// go. Its message stays until all is done, so it is repeated over crashes;
// tombstones keep replays from running (DT-102).
func (a *Admitter) uninstall(ctx context.Context, d task.Delivery, seq uint64) error {
	if d.InstallationID == 0 {
		return nil // the repository hooks' shared place is nobody's to delete
	}
	if err := a.store.MarkDeleted(ctx, d.InstallationID, a.now()); err != nil {
		return err
	}
	ids, err := a.store.InstallationTasks(ctx, d.InstallationID)
	if err != nil {
		return err
	}
	ended := 0
	for _, id := range ids {
		if inst, done := a.view.Entombed(id); done && inst == d.InstallationID {
			continue
		}
		if err := a.uninstallTask(ctx, d.InstallationID, id); err != nil {
			return fmt.Errorf("uninstall after %d of %d tasks: %w", ended, len(ids), err)
		}
		ended++
	}
	if err := a.store.PurgeInstallation(ctx, d.InstallationID); err != nil {
		return err
	}
	replies := 0
	if a.outbox != nil {
		// After the tombstones, which carry no intents: none is made again.
		if replies, err = a.outbox.PurgeInstallation(ctx, d.InstallationID); err != nil {
			return err
		}
	}
	if err := a.deliveries.PurgeInstallation(ctx, d.InstallationID, seq); err != nil {
		return err
	}
	if a.audit != nil {
		a.audit.Record("uninstalled", "", "", fmt.Sprintf("installation %d: %d tasks became tombstones, %d replies and the deliveries before %d purged", d.InstallationID, ended, replies, seq))
	}
	return nil
}

func (a *Admitter) uninstallTask(ctx context.Context, installation int64, id task.ID) error {
	for {
		r, rev, err := a.store.Get(ctx, installation, id)
		if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrNewer) || errors.Is(err, kv.ErrCorrupt) {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.Tombstone || r.Reason != task.ReasonUninstalled {
			err = a.store.Entomb(ctx, r.Uninstall(a.now()), rev, a.tombTTL)
		}
		if err == nil {
			if a.forget != nil {
				return a.forget(id)
			}
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknown) {
			return err
		}
	}
}

// refuse makes the tombstone of a task that came for an installation which
// was deleted before.
func (a *Admitter) refuse(ctx context.Context, r task.Record) error {
	err := a.store.CreateTombstone(ctx, r.Uninstall(a.now()), a.tombTTL)
	if errors.Is(err, kv.ErrExists) {
		return nil
	}
	return err
}
