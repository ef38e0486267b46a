package outbox

import (
	"cmp"
	"time"
)

// Lane is within what records go out one after the other: one task, one
// channel, one recipient. Records without a task have no order.
type Lane struct{ TaskID, Channel, To string }

// Lane returns the lane of a record, false if it is in none.
func (r *Record) Lane() (Lane, bool) {
	return Lane{r.TaskID, r.Channel, r.To}, r.TaskID != ""
}

// Place is what the order within a lane looks at.
type Place struct {
	Index     int
	CreatedAt time.Time
	ID        ID
}

// Before orders by index, then age, then id (OB-34).
func (p Place) Before(q Place) bool {
	return cmp.Or(cmp.Compare(p.Index, q.Index), p.CreatedAt.Compare(q.CreatedAt), cmp.Compare(p.ID, q.ID)) < 0
}

// Blocks reports whether a record holds up those behind it in its lane: while
// it is pending, and while it is delivering until its lease is over. One that
// failed does not.
func Blocks(s Status, leaseEnd, now time.Time) bool {
	return s == Pending || s == Delivering && now.Before(leaseEnd)
}
