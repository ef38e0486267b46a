//go:build ci

package kv_test

import (
	"testing"

	"github.com/belay-run/belay/kv/natstest"
)

// OT-68…73 on three nodes that keep three copies: the same races, with the
// contenders' reads and writes going through different nodes.
func TestOT69RacesOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := natstest.NewCluster(t)
	for _, js := range c.JS {
		d := newDeskOn(t, js)
		gatedRaces(t, d)
		mixedEnds(t, d)
		proposals(t, d)
	}
	d := newDeskOn(t, c.JS[0])
	d.more = c.JS[1:]
	bursts(t, d)
	gatedRaces(t, d)
	mixedEnds(t, d)
	proposals(t, d)
}
