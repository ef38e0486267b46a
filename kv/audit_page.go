package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/belay-run/belay/kv/task"
)

// AuditQuery selects a page of the trail, newest first. Zero fields do not
// filter.
type AuditQuery struct {
	// Installation and Repos are the caller's scope: nil means all.
	Installation *int64
	Repos        []string
	Repo         string
	Kind         string
	Caller       string
	TaskID       task.ID
	// Since ends the list at the first entry from before. Those that stand for
	// a minute are stored later than their time says, and do not end it.
	Since time.Time
	// Limit is the largest number of entries, at least 1.
	Limit int
	// Cursor is the Next of the page before, "" for the first page.
	Cursor string
}

// lister reads the entries that the query picks: subjects carry the kind and
// the installation, headers the rest.
func (l *AuditLog) lister(q *AuditQuery, repos task.RepoFilter) *lister {
	kind := "*"
	if q.Kind != "" {
		kind = Key(q.Kind)
	}
	of := &lister{js: l.js, stream: l.stream, want: q.Limit, subjects: []string{"audit." + kind, "audit." + kind + ".*"}}
	switch {
	case q.Installation == nil:
	case *q.Installation == 0: // as entries are that name none
		of.subjects = of.subjects[:1]
	default:
		of.subjects = []string{"audit." + kind + "." + num(*q.Installation)}
	}
	if repos != nil || q.Caller != "" || q.TaskID != "" {
		of.keep = func(h nats.Header) bool {
			return repos.Has(h.Get(HeaderRepo)) &&
				(q.Caller == "" || headerText(q.Caller) == h.Get(headerCaller)) &&
				(q.TaskID == "" || string(q.TaskID) == h.Get(headerTask))
		}
	}
	return of
}

func (q *AuditQuery) match(e *AuditEntry, repos task.RepoFilter) bool {
	return (q.Installation == nil || *q.Installation == e.InstallationID) &&
		repos.Has(e.Repo) &&
		(q.Kind == "" || q.Kind == e.Kind) &&
		(q.Caller == "" || q.Caller == e.Caller) &&
		(q.TaskID == "" || q.TaskID == e.TaskID)
}

// AuditPage is a part of the trail; Next is "" at its end.
type AuditPage struct {
	Entries []AuditEntry
	Next    string
}

// Page reads entries from the newest (or the cursor) backwards; ErrCursor for
// a cursor that it did not give out. Entries that cannot be decoded are passed
// over. A page with a Next is full, unless 20,000 entries that only their
// headers tell apart lie on its way.
func (l *AuditLog) Page(ctx context.Context, q AuditQuery) (AuditPage, error) {
	var page AuditPage
	repos, over := task.NewRepoFilter(q.Repos, q.Repo), false
	next, err := l.lister(&q, repos).backwards(ctx, q.Cursor, func(ctx context.Context, seq uint64) (bool, error) {
		if len(page.Entries) >= max(q.Limit, 1) {
			return false, nil
		}
		e, err := l.get(ctx, seq)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer):
		case err != nil:
			return false, err
		case e.Count == 0 && e.At.Before(q.Since):
			over = true
			return false, nil
		case q.match(&e, repos):
			page.Entries = append(page.Entries, e)
		}
		return true, nil
	})
	if err != nil {
		return AuditPage{}, fmt.Errorf("read audit log: %w", err)
	}
	if !over {
		page.Next = next
	}
	return page, nil
}

func (l *AuditLog) get(ctx context.Context, seq uint64) (AuditEntry, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := l.stream.GetMsg(ctx, seq)
	if err != nil {
		return AuditEntry{}, fmt.Errorf("read audit entry %d: %w", seq, classify(err))
	}
	var e AuditEntry
	if err := task.Decode(m.Data, &e, &e.V); err != nil {
		return AuditEntry{}, fmt.Errorf("decode audit entry %d: %w", seq, err)
	}
	return e, nil
}
