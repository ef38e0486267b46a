package task

import (
	"fmt"
	"time"
)

// ReasonUninstalled is the reason of a task whose installation was deleted.
const ReasonUninstalled = "installation_deleted"

// Entomb returns the small record that stands for a terminal task once its
// retention is over: it keeps a replay of its delivery from running again and
// holds nothing that a person wrote.
func (r Record) Entomb(at time.Time) (Record, error) {
	if !r.State.Terminal() {
		return r, fmt.Errorf("entomb %s task: %w", r.State, ErrState)
	}
	return r.tombstone(r.State, at), nil
}

// Uninstall returns the tombstone of any task, live ones included: its
// installation was deleted, so whatever runs for it has lost its right to.
func (r Record) Uninstall(at time.Time) Record {
	s := r.State
	if !s.Terminal() {
		s = Cancelled
	}
	t := r.tombstone(s, at)
	t.Reason, t.Repo, t.FamiliarID = ReasonUninstalled, "", ""
	return t
}

func (r Record) tombstone(s State, at time.Time) Record {
	return Record{
		V: Version, ID: r.ID, Source: r.Source, DeliveryID: r.DeliveryID, DeliverySeq: r.DeliverySeq,
		InstallationID: r.InstallationID, RepoID: r.RepoID, Repo: r.Repo, FamiliarID: r.FamiliarID, State: s,
		Attempts: r.Attempts, Tombstone: true, CreatedAt: r.CreatedAt, UpdatedAt: At(at),
	}
}
