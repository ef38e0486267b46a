package ingest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// wireStep is one thing that happened, or the way things stand.
type wireStep struct {
	At   task.Time `json:"at"`
	Kind string    `json:"kind"`
	// Text says what happened, Why for which reason, Next what a person can do
	// about it.
	Text string `json:"text"`
	Why  string `json:"why,omitempty"`
	Next string `json:"next,omitempty"`
	// URL is where it shows on GitHub.
	URL        string          `json:"url,omitempty"`
	DeliveryID task.DeliveryID `json:"deliveryId,omitempty"`
	TaskID     task.ID         `json:"taskId,omitempty"`
}

// The kinds of steps.
const (
	stepDelivery  = "delivery"
	stepRouting   = "routing"
	stepAdmission = "admission"
	stepAttempt   = "attempt"
	stepAudit     = "audit"
	stepEvent     = "event"
	stepState     = "state"
	stepGitHub    = "github"
	stepOutbox    = "outbox"
)

func (x *story) add(r *task.Record, st wireStep) {
	st.TaskID = r.ID
	x.steps = append(x.steps, st)
}

// accepted tells what came, and what routing made of it.
func (x *story) accepted(l *kv.Logged) {
	x.deliveries = append(x.deliveries, deliveryOf(l))
	hook := ""
	if l.HookID != "" {
		hook = ", hook " + l.HookID
	}
	x.steps = append(x.steps, wireStep{
		At: l.ReceivedAt, Kind: stepDelivery, DeliveryID: l.ID,
		Text: fmt.Sprintf("%s%s accepted through source %s%s, stored as message %d of WEBHOOKS", eventName(l), placeOf(l), l.Source, hook, l.Seq),
		Why:  "its signature was one of the source's secrets'; body's SHA-256 " + l.PayloadHash,
	})
	st := wireStep{At: l.ReceivedAt, Kind: stepRouting, DeliveryID: l.ID}
	if reason, ok := l.Routing.Reason(); ok {
		w := ignored[reason]
		st.Text, st.Why, st.Next = "ignored: "+string(reason), w.why, w.next
		x.steps = append(x.steps, st)
		return
	}
	id, _ := l.Routing.Task()
	st.Text, st.TaskID = "makes task "+string(id), id
	if l.Task != nil {
		st.Text += fmt.Sprintf(": %s for familiar %s", l.Task.Kind.Name, l.Task.FamiliarID)
		st.Why = routed(l)
	}
	x.steps = append(x.steps, st)
}

func eventName(l *kv.Logged) string {
	if l.Action == "" {
		return l.Event
	}
	return l.Event + "." + l.Action
}

func placeOf(l *kv.Logged) string {
	out := ""
	if l.Repo != "" {
		out = " of " + l.Repo
		if l.Number != 0 {
			out += "#" + strconv.Itoa(l.Number)
		}
	}
	if l.InstallationID != 0 {
		out += ", installation " + strconv.FormatInt(l.InstallationID, 10)
	}
	return out
}

// forgotten stands for a delivery that the log no longer holds.
func (x *story) forgotten(r *task.Record) {
	x.steps = append(x.steps, wireStep{
		At: r.CreatedAt, Kind: stepDelivery, DeliveryID: r.DeliveryID,
		Text: fmt.Sprintf("delivery %s was message %d of WEBHOOKS", r.DeliveryID, r.DeliverySeq),
		Why:  "the log keeps deliveries for [storage] delivery_retention_days",
	})
}

// unadmitted stands for the record that is not made yet.
func (x *story) unadmitted(l *kv.Logged, id task.ID) {
	x.steps = append(x.steps, wireStep{
		At: l.ReceivedAt, Kind: stepAdmission, TaskID: id, Text: "received, and not admitted yet",
		Why:  "admission makes a record of it within moments, after a crash too",
		Next: "if it stays so, look at `belay doctor --online` and /readyz of the admin listener",
	})
}

func (x *story) tombstone(r *task.Record) {
	x.add(r, wireStep{
		At: r.UpdatedAt, Kind: stepState, Text: "only a tombstone is left, so that its delivery makes no second task",
		Why: tombstoneWhy(r.Reason),
	})
}

func (x *story) admitted(r *task.Record) {
	why := ""
	if r.Commander != "" {
		why = "commanded by " + r.Commander
	}
	if r.SupersedeKey != "" {
		why = strings.TrimPrefix(why+"; of those of "+r.SupersedeKey+" only the newest is to run", "; ")
	}
	x.add(r, wireStep{At: r.CreatedAt, Kind: stepAdmission, Text: "admitted: " + r.Title, Why: why})
}

// attempt is two steps, or one while it runs.
func (x *story) attempt(r *task.Record, a *task.Attempt) {
	name := "attempt " + strconv.Itoa(a.N)
	x.add(r, wireStep{At: a.StartedAt, Kind: stepAttempt, Text: name + " begins on " + a.Worker, Why: "it won the claim; boot " + string(a.Boot)})
	if a.EndedAt.IsZero() {
		return
	}
	st := wireStep{At: a.EndedAt, Kind: stepAttempt, Text: name + " ends: " + string(a.Outcome), Why: outcomes[a.Outcome]}
	if a.Detail != "" {
		st.Why = strings.TrimPrefix(st.Why+"; "+a.Detail, "; ")
	}
	if a.Tail != "" {
		st.Next = fmt.Sprintf("its output: `belay tasks logs %s --attempt %d`", r.ID, a.N)
	}
	x.add(r, st)
}

func (x *story) audited(r *task.Record, e *kv.AuditEntry) {
	by := e.Caller
	if by == "" {
		by = "belay"
	}
	x.add(r, wireStep{At: e.At, Kind: stepAudit, Text: e.Kind + " by " + by, Why: e.Detail})
}

// standing tells how a task stands, and where GitHub shows it.
func (x *story) standing(r *task.Record) {
	st := wireStep{At: r.UpdatedAt, Kind: stepState, Text: string(r.State), Why: r.Reason}
	switch r.State {
	case task.Queued:
		st.Text, st.Why = "queued, waits for a worker", waits[x.s.o.Tasks.Waits(r.ID)]
		if r.NotBefore.After(x.s.o.Now()) {
			st.Text, st.Why = "queued, not to begin before "+r.NotBefore.String(), "the last attempt ended so that another is worth while only later"
		}
	case task.Superseded:
		st.Text, st.Why = "superseded", superseded(r)
		if r.SupersededBy != "" {
			st.Text += " by " + string(r.SupersededBy)
		}
	case task.Completed:
		st.Text, st.Why = "completed: "+string(r.ResultStatus), r.Summary
	case task.Failed, task.Cancelled:
		st.Next = "`belay tasks retry " + string(r.ID) + "` begins anew, with a fresh budget"
	}
	x.add(r, st)
	for _, u := range []struct{ name, url string }{{"check run", r.CheckRunURL}, {"pull request", r.PRURL}} {
		if u.url != "" {
			x.add(r, wireStep{At: r.UpdatedAt, Kind: stepGitHub, Text: u.name, URL: u.url})
		}
	}
}

// reply is two steps, or one while it waits.
func (x *story) reply(r *task.Record, o *wireOutbox) {
	name := "reply " + string(o.ID) + " through " + o.Channel + " to " + o.To
	x.add(r, wireStep{At: o.CreatedAt, Kind: stepOutbox, Text: name, Why: "the task's end asks for it, in the same write"})
	st := wireStep{At: o.UpdatedAt, Kind: stepOutbox, Text: fmt.Sprintf("reply %s is %s after %d tries", o.ID, o.Status, o.Attempts), Why: o.LastError}
	switch {
	case o.Unknown:
		st.Text = fmt.Sprintf("reply %s: nobody can say whether it arrived", o.ID)
		st.Next = "look at the recipient, then `belay outbox resolve " + string(o.ID) + "`"
	case o.Status == outbox.Pending:
		return
	case o.Status == outbox.Failed:
		st.Next = "belay sends it no more; the recipient's answer says why"
	}
	x.add(r, st)
}
