package consumers

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// check holds after every step.
func (m *model) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(m.rt, m.twice, "two live attempts of one task")
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	require.Empty(m.rt, m.l.bad)
}

// settle lets everything come to its end: all is admitted, what is dead is
// given back, what waits runs and completes.
func (m *model) settle() {
	ctx := context.Background()
	m.regain()
	for _, d := range m.known {
		for _, p := range m.procs {
			require.NoError(m.rt, p.adm.Admit(ctx, d.Delivery, d.Seq))
		}
	}
	for round := 0; m.unfinished() > 0; round++ {
		require.Less(m.rt, round, 200, "%d tasks do not come to an end", m.unfinished())
		for _, h := range m.runs() {
			m.finished(h, completed())
		}
		if round%20 == 19 || round == 0 {
			m.recover()
		}
		for _, p := range m.procs {
			for _, c := range p.view.Eligible(100, 0, p.w.busy())[m.inst] {
				m.claimed(p, c)
			}
		}
	}
}

func (m *model) unfinished() int {
	n := 0
	for _, d := range m.known {
		if !m.record(d.Task.ID).State.Terminal() {
			n++
		}
	}
	return n
}

func (m *model) record(id task.ID) task.Record {
	r, _, err := m.l.store.Get(context.Background(), m.inst, id)
	require.NoError(m.rt, err, "nothing accepted is missing")
	return r
}

// checkEnd holds once everything is over.
func (m *model) checkEnd() {
	m.check()
	ids := map[task.ID]bool{}
	for _, d := range m.known {
		require.False(m.rt, ids[d.Task.ID], "one task a delivery id")
		ids[d.Task.ID] = true
		m.checkBudget(m.record(d.Task.ID))
	}
	bucket, err := m.l.js.Stream(context.Background(), kv.StreamState)
	require.NoError(m.rt, err)
	info, err := bucket.Info(context.Background(), jetstream.WithSubjectFilter(fmt.Sprintf("$KV.STATE.task.%d.>", m.inst)))
	require.NoError(m.rt, err)
	require.Len(m.rt, info.State.Subjects, len(ids), "and no other record")
	m.checkHeads()
}

func (m *model) checkBudget(r task.Record) {
	require.Len(m.rt, r.AttemptLog, r.Attempts)
	require.LessOrEqual(m.rt, r.Spent(), modelMaxRetries+1)
	for i, a := range r.AttemptLog {
		require.Equal(m.rt, i+1, a.N)
		require.False(m.rt, a.EndedAt.IsZero(), "every attempt is closed")
	}
	last := task.Outcome("")
	if r.Attempts > 0 {
		last = r.AttemptLog[r.Attempts-1].Outcome
	}
	if r.State == task.Failed && r.Reason != "no" {
		require.Equal(m.rt, modelMaxRetries+1, r.Spent(), "failed without a result only when its budget is spent")
		require.True(m.rt, last.Spent())
	}
	if r.State == task.Completed {
		require.Equal(m.rt, task.OutcomeCompleted, last)
	}
}

// checkHeads holds every pull request's newest head against what became of it.
func (m *model) checkHeads() {
	newest := map[int]kv.Logged{}
	for _, d := range m.known {
		if d.Task.Review == nil {
			continue
		}
		old, ok := newest[d.Number]
		if !ok || orderOf(old).Less(orderOf(d)) {
			newest[d.Number] = d
		}
	}
	for pull, d := range newest {
		r := m.record(d.Task.ID)
		if r.State == task.Superseded && r.Reason == task.ReasonCoalesced {
			w := m.record(r.SupersededBy)
			require.Equal(m.rt, r.HeadSHA, w.HeadSHA, "coalesced onto its own head")
			r = w
		}
		require.NotEqual(m.rt, task.Superseded, r.State, "the last head of pull %d was lost: %s by %s", pull, r.Reason, r.SupersededBy)
	}
}

func orderOf(d kv.Logged) task.Order {
	return task.Order{UpdatedAt: d.Task.Review.UpdatedAt, Seq: d.Seq}
}
