package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unique"

	"github.com/tidwall/btree"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// reply is one outbox record in the index: everything but its payload.
type reply struct {
	id       outbox.ID
	rev      uint64
	inst     int64
	created  int64 // microseconds
	updated  int64 // microseconds
	leaseEnd int64 // microseconds
	since    int64 // nanoseconds of the local clock: pending here since
	channel  unique.Handle[string]
	to       unique.Handle[string]
	repo     unique.Handle[string]
	task     string
	err      string
	index    int32
	attempts int32
	status   outbox.Status
	gen      uint32
}

// maxReplyError bounds the last error kept in memory, in bytes.
const maxReplyError = 300

// recipient is a way out and who is at its end.
type recipient struct{ channel, to unique.Handle[string] }

func (r *reply) recipient() recipient { return recipient{r.channel, r.to} }

func (r *reply) place() outbox.Place {
	return outbox.Place{Index: int(r.index), CreatedAt: time.UnixMicro(r.created), ID: r.id}
}

// replyTree is an ordered set of records. The view's own lock guards it.
type replyTree = btree.BTreeG[*reply]

func newReplyTree(less func(a, b *reply) bool) *replyTree {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16})
}

// byReplyList is the order of lists: updated descending, then id.
func byReplyList(a, b *reply) bool {
	return cmp.Or(cmp.Compare(b.updated, a.updated), cmp.Compare(a.id, b.id)) < 0
}

// byReplyTurn is the order in which a recipient's records go out: oldest
// first, and those of one task by index.
func byReplyTurn(a, b *reply) bool {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.task, b.task), cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id)) < 0
}

// byReplyLease is the order in which claims lapse.
func byReplyLease(a, b *reply) bool {
	return cmp.Or(cmp.Compare(a.leaseEnd, b.leaseEnd), cmp.Compare(a.id, b.id)) < 0
}

// replies is the index of the outbox.
type replies struct {
	all        map[outbox.ID]*reply
	list       *replyTree
	byStatus   map[outbox.Status]*replyTree
	byInst     map[int64]*replyTree
	pending    map[recipient]*replyTree
	waiting    *replyTree // pending, of all recipients
	delivering *replyTree
	tasks      map[string][]*reply
	underived  map[string]underived // by task id
	changed    chan struct{}
}

func newReplies() *replies {
	by := map[outbox.Status]*replyTree{}
	for _, s := range outbox.Statuses {
		by[s] = newReplyTree(byReplyList)
	}
	return &replies{
		all: map[outbox.ID]*reply{}, list: newReplyTree(byReplyList), byStatus: by, byInst: map[int64]*replyTree{},
		pending: map[recipient]*replyTree{}, waiting: newReplyTree(byReplyTurn), delivering: newReplyTree(byReplyLease),
		tasks: map[string][]*reply{}, underived: map[string]underived{}, changed: make(chan struct{}, 1),
	}
}

// OutboxChanged signals, at most once until it is received, that a record of
// the outbox changed, or that a task ended with intents.
func (v *View) OutboxChanged() <-chan struct{} { return v.replies.changed }

func (x *replies) wake() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// replyShape is the part of an outbox record that the index keeps.
type replyShape struct {
	outbox.Record
	Payload skipped `json:"payload"` // in front of the record's
}

// skipped is a value that is not kept.
type skipped struct{}

// UnmarshalJSON accepts everything.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

func (v *View) applyOutbox(rest string, u update) {
	x := v.replies
	id := outbox.ID(rest)
	old := x.all[id]
	if old != nil && old.rev > u.rev {
		return
	}
	defer x.wake()
	if u.deleted {
		x.remove(old)
		delete(v.poison, u.key)
		return
	}
	if old != nil && old.rev == u.rev {
		old.gen = v.gen
		return
	}
	var s replyShape
	err := task.Decode(u.value, &s, &s.V)
	if err == nil && (x.byStatus[s.Status] == nil || string(s.ID) != rest) {
		err = fmt.Errorf("%w: it is outbox record %q, status %q", task.ErrCorrupt, s.ID, s.Status)
	}
	x.remove(old)
	if err != nil {
		v.poisoned(u, err)
		return
	}
	delete(v.poison, u.key)
	r := s.reply(u.rev)
	r.gen, r.since = v.gen, v.now().UnixNano()
	if old != nil && old.status == r.status {
		r.since = old.since
	}
	x.insert(r)
}

func (s *replyShape) reply(rev uint64) *reply {
	return &reply{
		id: s.ID, rev: rev, inst: s.InstallationID, created: s.CreatedAt.UnixMicro(), updated: s.UpdatedAt.UnixMicro(),
		leaseEnd: s.LeaseEnd().UnixMicro(), channel: unique.Make(s.Channel), to: unique.Make(s.To), repo: unique.Make(s.Repo),
		task: s.TaskID, err: strings.Clone(task.Cut(s.LastError, maxReplyError)), index: int32(s.Index), attempts: int32(s.Attempts),
		status: outbox.Status(unique.Make(string(s.Status)).Value()),
	}
}

func (x *replies) insert(r *reply) {
	x.all[r.id] = r
	x.list.Set(r)
	x.byStatus[r.status].Set(r)
	if x.byInst[r.inst] == nil {
		x.byInst[r.inst] = newReplyTree(byReplyList)
	}
	x.byInst[r.inst].Set(r)
	if r.task != "" {
		x.tasks[r.task] = append(x.tasks[r.task], r)
		x.derived(r)
	}
	switch r.status {
	case outbox.Pending:
		x.waiting.Set(r)
		t := x.pending[r.recipient()]
		if t == nil {
			t = newReplyTree(byReplyTurn)
			x.pending[r.recipient()] = t
		}
		t.Set(r)
	case outbox.Delivering:
		x.delivering.Set(r)
	}
}

func (x *replies) remove(r *reply) {
	if r == nil {
		return
	}
	delete(x.all, r.id)
	x.list.Delete(r)
	x.byStatus[r.status].Delete(r)
	if t := x.byInst[r.inst]; t.Len() > 1 {
		t.Delete(r)
	} else {
		delete(x.byInst, r.inst)
	}
	if r.task != "" {
		x.forgetTask(r)
	}
	switch r.status {
	case outbox.Pending:
		x.waiting.Delete(r)
		t := x.pending[r.recipient()]
		t.Delete(r)
		if t.Len() == 0 {
			delete(x.pending, r.recipient())
		}
	case outbox.Delivering:
		x.delivering.Delete(r)
	}
}

func (x *replies) forgetTask(r *reply) {
	left := x.tasks[r.task]
	for i, o := range left {
		if o == r {
			left = append(left[:i:i], left[i+1:]...)
			break
		}
	}
	if len(left) == 0 {
		delete(x.tasks, r.task)
		return
	}
	x.tasks[r.task] = left
}
