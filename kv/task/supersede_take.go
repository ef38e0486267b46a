package task

// Take returns the pointer after a review was begun at head, which GitHub
// showed to be the pull request's last one just now: by that it is newer than
// all that the key has seen, whatever the order of their events. p is the
// pointer that was read, nil if there is none; seq is the review's own place
// in the log. A review of a later head supersedes it as any other.
func Take(p *Pointer, id ID, head string, seq uint64) Pointer {
	if p == nil {
		return Pointer{V: Version, Task: id, Head: head, Order: Order{Seq: seq}}
	}
	n := *p
	n.Task = id
	if p.Task != id {
		n.Prev = p.Task
	}
	n.Order.Seq = max(p.Order.Seq, seq)
	if head != p.Head {
		n.Head, n.Before = head, ""
		n.Older = older(p.Older, head, p.Head, p.Before)
	}
	return n
}
