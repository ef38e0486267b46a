package task

import "strconv"

// SupersedeKey groups the reviews of which only the newest should run. It
// uses numeric ids, so a renamed repository keeps its key.
type SupersedeKey struct {
	InstallationID int64
	RepoID         int64
	Number         int
	FamiliarID     string
}

// String is for logs; bucket keys are built in package kv.
func (k SupersedeKey) String() string {
	return strconv.FormatInt(k.InstallationID, 10) + "/" + strconv.FormatInt(k.RepoID, 10) + "#" +
		strconv.Itoa(k.Number) + "/" + k.FamiliarID
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
}

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
// Newer is: before = the pointer's head → newer; head = the pointer's
// before → older; else the order decides (DESIGN §6).
func Decide(p *Pointer, c Candidate, live bool) (Verdict, Pointer) {
	won := Pointer{V: Version, Task: c.Task, Head: c.Head, Before: c.Before, Order: c.Order}
	if p == nil {
		return Wins, won
	}
	if p.Task == c.Task {
		return Holds, *p
	}
	if !newer(p, c) {
		return Stale, *p
	}
	if live && c.Head != "" && c.Head == p.Head {
		moved := *p
		moved.Order = c.Order
		return Coalesced, moved
	}
	won.Prev = p.Task
	return Wins, won
}

func newer(p *Pointer, c Candidate) bool {
	sameHead := c.Head == p.Head
	if !sameHead && c.Before != "" && c.Before == p.Head {
		return true
	}
	if !sameHead && p.Before != "" && c.Head == p.Before {
		return false
	}
	return p.Order.Less(c.Order)
}
