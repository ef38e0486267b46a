package task

import (
	"slices"
	"strconv"
	"strings"
)

// SupersedeKey groups the tasks of which only the newest should run: the
// reviews of a pull request by Number, those of a rule by Rule and Group. It
// uses numeric ids, so a renamed repository keeps its key.
type SupersedeKey struct {
	InstallationID int64
	RepoID         int64
	Number         int
	FamiliarID     string
	Rule, Group    string
}

// String is for logs; bucket keys are built in package kv.
func (k SupersedeKey) String() string {
	return strconv.FormatInt(k.InstallationID, 10) + "/" + strconv.FormatInt(k.RepoID, 10) + "#" +
		strconv.Itoa(k.Number) + "/" + k.FamiliarID + strings.TrimSuffix("/"+k.Rule+k.Group, "/")
}

// Order places reviews that no chain of heads relates: by the payload's own
// updated_at, then by the sequence in the log.
type Order struct {
	UpdatedAt Time   `json:"updated_at"`
	Seq       uint64 `json:"seq"`
}

// Less reports whether o is older than p.
func (o Order) Less(p Order) bool {
	if !o.UpdatedAt.Equal(p.UpdatedAt.Time) {
		return o.UpdatedAt.Before(p.UpdatedAt.Time)
	}
	return o.Seq < p.Seq
}

// Pointer names the newest review under a supersede key.
type Pointer struct {
	V      int    `json:"v"`
	Task   ID     `json:"task"`
	Head   string `json:"head"`
	Before string `json:"before,omitempty"`
	Order  Order  `json:"order"`
	// Prev is the task the pointer named before, to be superseded by Task.
	Prev ID `json:"prev,omitempty"`
	// Older are heads known to come before Head, for reviews of one second;
	// at most maxOlder of them.
	Older []string `json:"older,omitempty"`
}

const maxOlder = 8

// Verdict is what admission does with a review.
type Verdict string

// The verdicts of Decide.
const (
	// Wins moves the pointer to the review and supersedes the former one.
	Wins Verdict = "wins"
	// Holds means the pointer names the review already; continue from there.
	Holds Verdict = "holds"
	// Stale means a newer review holds the key.
	Stale Verdict = "stale"
	// Coalesced means a live review of the same head holds the key; the
	// pointer's order moves, its task stays.
	Coalesced Verdict = "coalesced"
)

// Reasons of a superseded record.
const (
	ReasonSuperseded = "superseded"
	ReasonStale      = "stale"
	ReasonCoalesced  = "coalesced"
	ReasonReplayed   = "replayed"
	ReasonClosed     = "closed"
)

// Candidate is a review that asks for the key.
type Candidate struct {
	Task   ID
	Head   string
	Before string
	Order  Order
}

// Decide compares a candidate with the pointer that was read (nil when there
// is none) and returns what to do and the pointer to write (for Wins and
// Coalesced). live tells whether the pointer's task is queued or running.
//
// Newer is what the payload's own updated_at says. GitHub counts it in whole
// seconds; within one the chain of heads decides, and where that says nothing,
// the order of the log. The chain cannot come first: a head that was pushed
// back to (A, B, A again) stands on both sides of it.
func Decide(p *Pointer, c Candidate, live bool) (Verdict, Pointer) {
	won := Pointer{V: Version, Task: c.Task, Head: c.Head, Before: c.Before, Order: c.Order}
	if p == nil {
		won.Older = older(nil, c.Head, c.Before)
		return Wins, won
	}
	if p.Task == c.Task {
		return Holds, *p
	}
	if c.Order.UpdatedAt.IsZero() { // unknown is taken for the same second
		c.Order.UpdatedAt, won.Order.UpdatedAt = p.Order.UpdatedAt, p.Order.UpdatedAt
	}
	sameHead := c.Head != "" && c.Head == p.Head
	again := sameHead && !c.Order.Less(p.Order) && !p.Order.Less(c.Order)
	tie, chained, newer := compare(p, c)
	if !again && !newer {
		return Stale, *p
	}
	if again || live && sameHead {
		moved := *p
		moved.Order = c.Order
		moved.adopt(c)
		return Coalesced, moved
	}
	won.Prev = p.Task
	switch {
	case sameHead:
		won.Before, won.Older = p.Before, p.Older
		won.adopt(c)
	case !tie:
		won.Older = older(nil, c.Head, p.Head, c.Before)
	case chained:
		won.Older = older(p.Older, c.Head, p.Head, c.Before)
	default:
		won.Older = older(p.Older, c.Head, c.Before)
	}
	return Wins, won
}

// adopt takes over what a candidate of the same head knows of its past.
func (p *Pointer) adopt(c Candidate) {
	if c.Before != "" {
		p.Before = c.Before
	}
	p.Older = older(p.Older, p.Head, c.Before)
}

// compare reports whether the candidate is newer, whether only its second is
// the same as the pointer's, and whether the chain of heads said so.
func compare(p *Pointer, c Candidate) (tie, chained, newer bool) {
	if at := p.Order.UpdatedAt; !at.IsZero() && !at.Equal(c.Order.UpdatedAt.Time) {
		return false, false, at.Before(c.Order.UpdatedAt.Time)
	}
	if c.Head != p.Head {
		after := c.Before != "" && c.Before == p.Head
		// What follows a head that is older than mine is mine or older too.
		before := slices.Contains(p.Older, c.Head) || slices.Contains(p.Older, c.Before)
		if after != before {
			return true, true, after
		}
	}
	return true, false, p.Order.Seq < c.Order.Seq
}

// older adds heads to a list of those known to come before head.
func older(list []string, head string, heads ...string) []string {
	var out []string
	for _, h := range append(slices.Clone(list), heads...) {
		if h != "" && h != head && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out[max(0, len(out)-maxOlder):]
}
