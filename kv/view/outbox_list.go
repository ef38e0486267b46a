package view

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// OutboxItem is one outbox record as lists show it.
type OutboxItem struct {
	ID             outbox.ID
	Channel        string
	To             string
	TaskID         task.ID
	InstallationID int64
	Repo           string
	Index          int
	Status         outbox.Status
	// Unknown is true of a delivering record whose lease is over.
	Unknown   bool
	Attempts  int
	LastError string
	CreatedAt task.Time
	UpdatedAt task.Time
}

// StatusUnknown selects the records of OutboxQuery whose outcome is unknown.
const StatusUnknown = "unknown"

// OutboxStatuses lists every value that OutboxQuery.Status may have.
var OutboxStatuses = []string{"pending", "delivering", "delivered", "failed", StatusUnknown}

// OutboxQuery selects a page of the outbox. Zero fields do not filter.
type OutboxQuery struct {
	// Installation and Repos are the caller's scope: nil means all.
	Installation *int64
	Repos        []string
	// Repo, Status (one of OutboxStatuses), Channel and Task are filters.
	Repo, Status, Channel string
	Task                  task.ID
	// Limit is the largest number of items, at least 1.
	Limit int
	// Cursor is the Next of the page before, "" for the first page.
	Cursor string
}

// OutboxPage is a part of the outbox, ordered by UpdatedAt descending, then by id.
type OutboxPage struct {
	Items []OutboxItem
	// Next is the opaque cursor of the following page, "" at the end.
	Next string
}

func (r *reply) unknown(now time.Time) bool {
	return r.status == outbox.Delivering && r.leaseEnd <= now.UnixMicro()
}

func (r *reply) item(now time.Time) OutboxItem {
	return OutboxItem{
		ID: r.id, Channel: r.channel.Value(), To: r.to.Value(), TaskID: task.ID(r.task), InstallationID: r.inst, Repo: r.repo.Value(),
		Index: int(r.index), Status: r.status, Unknown: r.unknown(now), Attempts: int(r.attempts), LastError: r.err,
		CreatedAt: task.At(time.UnixMicro(r.created)), UpdatedAt: task.At(time.UnixMicro(r.updated)),
	}
}

func (q *OutboxQuery) match(r *reply, repos task.RepoFilter, now time.Time) bool {
	return (q.Installation == nil || *q.Installation == r.inst) &&
		repos.Has(r.repo.Value()) &&
		(q.Channel == "" || q.Channel == r.channel.Value()) &&
		(q.Task == "" || string(q.Task) == r.task) &&
		(q.Status == "" || q.Status == string(r.status) || q.Status == StatusUnknown && r.unknown(now))
}

// Outbox returns a page of the outbox.
func (v *View) Outbox(q OutboxQuery) (OutboxPage, error) {
	pivot, err := parseReplyCursor(q.Cursor)
	if err != nil {
		return OutboxPage{}, err
	}
	q.Limit = max(q.Limit, 1)
	repos := task.NewRepoFilter(q.Repos, q.Repo)
	now := v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	var page OutboxPage
	var last *reply
	for r := range v.replies.source(&q, pivot) {
		if pivot != nil && !byReplyList(pivot, r) || !q.match(r, repos, now) {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = replyCursor(last)
			break
		}
		page.Items = append(page.Items, r.item(now))
		last = r
	}
	return page, nil
}

// source yields, in the order of lists, the smallest set that holds all that
// the query may match: the few records of a task, those of a status, of an
// installation, or all of them.
func (x *replies) source(q *OutboxQuery, pivot *reply) func(yield func(*reply) bool) {
	list := x.list
	switch {
	case q.Task != "":
		return slices.Values(slices.SortedFunc(slices.Values(x.tasks[string(q.Task)]), func(a, b *reply) int {
			if byReplyList(a, b) {
				return -1
			}
			return 1
		}))
	case q.Status == StatusUnknown:
		list = x.byStatus[outbox.Delivering]
	case q.Status != "":
		list = x.byStatus[outbox.Status(q.Status)]
	}
	if q.Installation != nil {
		if own := x.byInst[*q.Installation]; own == nil || list != nil && own.Len() < list.Len() {
			list = own
		}
	}
	switch {
	case list == nil:
		return func(func(*reply) bool) {}
	case pivot == nil:
		return func(yield func(*reply) bool) { list.Scan(yield) }
	}
	return func(yield func(*reply) bool) { list.Ascend(pivot, yield) }
}

func replyCursor(r *reply) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(r.updated))
	return base64.RawURLEncoding.EncodeToString(append(b, r.id...))
}

func parseReplyCursor(s string) (*reply, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) <= 8 {
		return nil, ErrCursor
	}
	return &reply{updated: int64(binary.BigEndian.Uint64(b)), id: outbox.ID(b[8:])}, nil
}

// FindOutbox returns the outbox record with an id as lists show it.
func (v *View) FindOutbox(id outbox.ID) (OutboxItem, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r := v.replies.all[id]
	if r == nil {
		return OutboxItem{}, false
	}
	return r.item(v.now()), true
}

// OutboxCounts is the state of the outbox for metrics. Ages are 0 if there is
// nothing of the kind.
type OutboxCounts struct {
	ByStatus      map[outbox.Status]int
	Unknown       int
	OldestPending time.Duration // since it was created
	OldestUnknown time.Duration // since its lease was over
}

// OutboxCounts counts without a scan of what is done.
func (v *View) OutboxCounts() OutboxCounts {
	now := v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	x := v.replies
	c := OutboxCounts{ByStatus: make(map[outbox.Status]int, len(outbox.Statuses))}
	for _, s := range outbox.Statuses {
		c.ByStatus[s] = x.byStatus[s].Len()
	}
	if r, ok := x.waiting.Min(); ok {
		c.OldestPending = max(0, now.Sub(time.UnixMicro(r.created)))
	}
	if r, ok := x.delivering.Min(); ok && r.unknown(now) {
		c.OldestUnknown = now.Sub(time.UnixMicro(r.leaseEnd))
	}
	x.delivering.Scan(func(r *reply) bool {
		if !r.unknown(now) {
			return false
		}
		c.Unknown++
		return true
	})
	return c
}

// AgedOutbox returns up to limit delivered or failed records that have not
// changed since before, the oldest first.
func (v *View) AgedOutbox(before time.Time, limit int) []OutboxItem {
	horizon, now := before.UnixMicro(), v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []OutboxItem
	v.replies.list.Reverse(func(r *reply) bool {
		if r.updated >= horizon || len(out) == limit {
			return false
		}
		if r.status.Terminal() {
			out = append(out, r.item(now))
		}
		return true
	})
	return out
}
