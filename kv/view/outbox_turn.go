package view

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// maxTurn bounds how many records of one recipient a look examines.
const maxTurn = 256

// PendingOutbox is a pending record whose turn has come.
type PendingOutbox struct {
	ID      outbox.ID
	Channel string
	To      string
	// Since is when it became pending here by the local clock.
	Since time.Time
}

// NextOutbox returns the records that may be sent now, for each recipient the
// oldest first: room says how many of a recipient's are wanted, and take
// leaves out those that it does not want. The order within a task, channel
// and recipient holds (OB-34).
func (v *View) NextOutbox(room func(channel, to string) int, take func(PendingOutbox) bool) []PendingOutbox {
	now := v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []PendingOutbox
	for to, t := range v.replies.pending {
		n := room(to.channel.Value(), to.to.Value())
		seen := 0
		t.Scan(func(r *reply) bool {
			if seen++; n <= 0 || seen > maxTurn {
				return false
			}
			p := PendingOutbox{ID: r.id, Channel: to.channel.Value(), To: to.to.Value(), Since: time.Unix(0, r.since)}
			if v.replies.held(r, now) || !take(p) {
				return true
			}
			out = append(out, p)
			n--
			return true
		})
	}
	return out
}

// held reports whether an earlier record of the same lane must go first.
func (x *replies) held(r *reply, now time.Time) bool {
	return r.task != "" && slices.ContainsFunc(x.tasks[r.task], func(o *reply) bool {
		return o != r && o.channel == r.channel && o.to == r.to && o.place().Before(r.place()) &&
			outbox.Blocks(o.status, time.UnixMicro(o.leaseEnd), now)
	})
}

// LapsedOutbox returns up to limit records whose outcome is unknown and whose
// channel passes the filter, the oldest first.
func (v *View) LapsedOutbox(limit int, channel func(name string) bool) []OutboxItem {
	now := v.now()
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []OutboxItem
	v.replies.delivering.Scan(func(r *reply) bool {
		if !r.unknown(now) || len(out) == limit {
			return false
		}
		if channel(r.channel.Value()) {
			out = append(out, r.item(now))
		}
		return true
	})
	return out
}

// underived are the intents of a terminal task that have no records yet.
type underived struct {
	inst int64
	ns   []int
	rev  uint64
	gen  uint32
}

// Underived is a terminal task with intents that have no outbox records here.
type Underived struct {
	ID             task.ID
	InstallationID int64
}

// Underived returns up to limit of them.
func (v *View) Underived(limit int) []Underived {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Underived
	for id, m := range v.replies.underived {
		if len(out) == limit {
			break
		}
		out = append(out, Underived{ID: task.ID(id), InstallationID: m.inst})
	}
	return out
}

var intentsField = []byte(`"intents"`)

// applyIntents notes which intents of a terminal task lack their records.
func (v *View) applyIntents(rest string, u update) {
	x := v.replies
	_, id, _ := strings.Cut(rest, ".")
	if old, ok := x.underived[id]; ok && old.rev > u.rev {
		return
	}
	delete(x.underived, id)
	if u.deleted || !bytes.Contains(u.value, intentsField) {
		return
	}
	var s struct {
		V              int        `json:"v"`
		State          task.State `json:"state"`
		InstallationID int64      `json:"installation_id"`
		Intents        []struct {
			N int `json:"n"`
		} `json:"intents"`
	}
	if task.Decode(u.value, &s, &s.V) != nil || !s.State.Terminal() {
		return
	}
	m := underived{inst: s.InstallationID, rev: u.rev, gen: v.gen}
	for _, in := range s.Intents {
		if x.all[outbox.DerivedID(id, in.N)] == nil {
			m.ns = append(m.ns, in.N)
		}
	}
	if len(m.ns) > 0 {
		x.underived[id] = m
		x.wake()
	}
}

// derived crosses an intent off whose record is there.
func (x *replies) derived(r *reply) {
	m, ok := x.underived[r.task]
	if !ok {
		return
	}
	m.ns = slices.DeleteFunc(m.ns, func(n int) bool { return outbox.DerivedID(r.task, n) == r.id })
	if len(m.ns) == 0 {
		delete(x.underived, r.task)
		return
	}
	x.underived[r.task] = m
}

// caughtUp drops what a full replay did not show again.
func (x *replies) caughtUp(gen uint32) {
	for _, r := range x.all {
		if r.gen != gen {
			x.remove(r)
		}
	}
	for id, m := range x.underived {
		if m.gen != gen {
			delete(x.underived, id)
		}
	}
	x.wake()
}

// forgetRevisions lets a replay of a stream that went back overwrite all.
func (x *replies) forgetRevisions() {
	for _, r := range x.all {
		r.rev = 0
	}
	for id, m := range x.underived {
		m.rev = 0
		x.underived[id] = m
	}
}
