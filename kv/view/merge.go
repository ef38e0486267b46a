package view

import (
	"container/heap"
	"slices"

	"github.com/tidwall/btree"
)

// general is the scope of the same kind and name in every installation, false
// for one that has no name.
func (s scope) general() (scope, bool) {
	s.num = 0
	return s, s.kind == 'r' || s.kind == 's'
}

// place notes that an installation has a list.
func (v *View) place(s scope) {
	if g, ok := s.general(); ok {
		v.places[g] = append(v.places[g], s.num)
	}
}

// displace notes that it has the list no more.
func (v *View) displace(s scope) {
	g, ok := s.general()
	if !ok {
		return
	}
	left := slices.DeleteFunc(v.places[g], func(inst int64) bool { return inst == s.num })
	if len(left) == 0 {
		delete(v.places, g)
		return
	}
	v.places[g] = left
}

// head is the next entry of one list that is merged.
type head struct {
	e    *entry
	iter *btree.IterG[*entry]
}

// heads is a heap of them, the first of all on top.
type heads []head

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return byList(h[i].e, h[j].e) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(head)) }
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// merge calls take with the entries of several lists in their one order, from
// pivot (nil: the beginning) on, until it returns false. No entry is in two of
// the lists.
func merge(lists []*tree, pivot *entry, take func(*entry) bool) {
	if len(lists) == 1 {
		if pivot == nil {
			lists[0].Scan(take)
		} else {
			lists[0].Ascend(pivot, take)
		}
		return
	}
	h := make(heads, 0, len(lists))
	for _, t := range lists {
		iter := t.Iter()
		if pivot == nil && iter.First() || pivot != nil && iter.Seek(pivot) {
			h = append(h, head{iter.Item(), &iter})
		}
	}
	heap.Init(&h)
	for len(h) > 0 && take(h[0].e) {
		if h[0].iter.Next() {
			h[0].e = h[0].iter.Item()
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
}
