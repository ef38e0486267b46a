package consumers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// model is one sequence.
type model struct {
	rt    *rapid.T
	l     *lane
	inst  int64
	procs [2]*proc
	clock int // of payloads
	known []kv.Logged

	mu    sync.Mutex
	held  []*held
	live  map[task.ID]int
	twice []task.ID // tasks with two live attempts
}

// held is a run that waits for a step to end it.
type held struct {
	p   *proc
	id  task.ID
	end chan executor.Report
}

func (m *model) began(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, h)
	if m.live[h.id]++; m.live[h.id] > 1 {
		m.twice = append(m.twice, h.id)
	}
}

func (m *model) over(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[h.id]--
	m.held = slices.DeleteFunc(m.held, func(o *held) bool { return o == h })
}

func (m *model) runs() []*held {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.held)
}

// until waits for what a step has set in motion.
func (m *model) until(what string, cond func() bool) {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			m.rt.Fatalf("waited in vain for %s", what)
		}
	}
}

// step does one thing that may happen; the more frequent ones stand twice.
func (m *model) step() {
	steps := map[string]func(){
		"deliver issue": m.deliverIssue, "deliver review": m.deliverReview, "deliver another review": m.deliverReview,
		"duplicate": m.duplicate, "admit": m.admit, "admit another": m.admit, "admit and crash": m.admitCrash,
		"claim": m.claim, "claim another": m.claim, "claim with a lost answer": m.claimLost, "race for one": m.race,
		"finish": m.finish, "finish another": m.finish, "finish with a lost answer": m.finishLost,
		"crash": m.crash, "lose the beat": m.loseBeat, "regain the beat": m.regain, "recover": m.recover,
		"cancel": m.cancel, "retry": m.retry,
	}
	names := make([]string, 0, len(steps))
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	if rapid.IntRange(0, 3000).Draw(m.rt, "restart") == 1777 { // small ones are drawn far more often
		m.restart()
		return
	}
	steps[rapid.SampledFrom(names).Draw(m.rt, "step")]()
}

func (m *model) proc() *proc { return m.procs[rapid.IntRange(0, 1).Draw(m.rt, "process")] }

func (m *model) accept(d task.Delivery) {
	d.InstallationID = m.inst
	acc, err := m.l.log.Accept(context.Background(), d)
	require.NoError(m.rt, err)
	require.False(m.rt, acc.Duplicate)
	m.known = append(m.known, kv.Logged{Delivery: acc.Delivery, Seq: acc.Seq})
}

func (m *model) deliverIssue() { m.accept(issue(rapid.IntRange(1, 3).Draw(m.rt, "issue"))) }

// deliverReview pushes a head, at times the same one again, at times with an
// older time than those before it.
func (m *model) deliverReview() {
	m.clock++
	at := m.clock*100 - rapid.SampledFrom([]int{0, 0, 0, 150, 250}).Draw(m.rt, "late")
	head := rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(m.rt, "same head")
	m.accept(review(rapid.IntRange(1, 2).Draw(m.rt, "pull"), fmt.Sprint("h", m.clock-head), "", at))
}

func (m *model) one() (kv.Logged, bool) {
	if len(m.known) == 0 {
		return kv.Logged{}, false
	}
	return rapid.SampledFrom(m.known).Draw(m.rt, "delivery"), true
}

func (m *model) duplicate() {
	if d, ok := m.one(); ok {
		acc, err := m.l.log.Accept(context.Background(), d.Delivery)
		require.NoError(m.rt, err)
		require.True(m.rt, acc.Duplicate)
		require.Equal(m.rt, d.Seq, acc.Seq)
		require.Equal(m.rt, d.Routing, acc.Delivery.Routing)
	}
}

func (m *model) admit() {
	if d, ok := m.one(); ok {
		require.NoError(m.rt, m.proc().adm.Admit(context.Background(), d.Delivery, d.Seq))
	}
}

func (m *model) admitCrash() {
	if d, ok := m.one(); ok {
		p := m.proc()
		p.failAt(rapid.IntRange(1, 7).Draw(m.rt, "at"), rapid.Bool().Draw(m.rt, "after"), false)
		_ = p.adm.Admit(context.Background(), d.Delivery, d.Seq)
		p.failAt(0, false, false)
	}
}

// eligible is a candidate of the process's own view, or, as with a view that
// is behind, any task.
func (m *model) eligible(p *proc) (view.Candidate, bool) {
	cands := p.view.Eligible(100, 0, p.w.busy())[m.inst]
	if len(cands) == 0 {
		d, ok := m.one()
		if !ok || d.Task.Kind.Name == task.ReviewPullRequest {
			return view.Candidate{}, false
		}
		return view.Candidate{ID: d.Task.ID, InstallationID: m.inst}, !p.w.busy()(d.Task.ID)
	}
	return rapid.SampledFrom(cands).Draw(m.rt, "candidate"), true
}

func (m *model) claim() {
	p := m.proc()
	if c, ok := m.eligible(p); ok {
		m.claimed(p, c)
	}
}

func (m *model) claimLost() {
	p := m.proc()
	if c, ok := m.eligible(p); ok {
		p.failAt(rapid.IntRange(1, 2).Draw(m.rt, "at"), rapid.Bool().Draw(m.rt, "after"), true)
		m.claimed(p, c)
		p.failAt(0, false, false)
	}
}

func (m *model) claimed(p *proc, c view.Candidate) bool {
	r := p.w.claim(context.Background(), c)
	if r == nil {
		return false
	}
	m.until("the claimed task to run", func() bool { return r.ctx.Err() != nil || m.holder(c.ID) == p || !p.w.holds(c.ID) })
	return true
}

func (m *model) holder(id task.ID) *proc {
	for _, h := range m.runs() {
		if h.id == id {
			return h.p
		}
	}
	return nil
}

func (m *model) race() {
	c, ok := m.eligible(m.procs[0])
	if !ok || m.procs[1].w.busy()(c.ID) {
		return
	}
	won := make(chan bool, 2)
	for _, p := range m.procs {
		go func() { won <- m.claimed(p, c) }()
	}
	a, b := <-won, <-won
	require.False(m.rt, a && b, "both claimed %s", c.ID)
}

func (m *model) finish() {
	if h := m.oneRun(); h != nil {
		m.finished(h, m.report())
	}
}

func (m *model) finishLost() {
	h := m.oneRun()
	if h == nil || h.p.mute() {
		return
	}
	h.p.failAt(1, rapid.Bool().Draw(m.rt, "after"), true)
	m.finished(h, m.report())
	h.p.failAt(0, false, false)
}

func (m *model) oneRun() *held {
	runs := m.runs()
	if len(runs) == 0 {
		return nil
	}
	slices.SortFunc(runs, func(a, b *held) int { return m.order(a.id) - m.order(b.id) })
	return runs[rapid.IntRange(0, len(runs)-1).Draw(m.rt, "run")]
}

// order makes draws repeatable: it is the place of a task in the log.
func (m *model) order(id task.ID) int {
	return slices.IndexFunc(m.known, func(d kv.Logged) bool { return d.Task.ID == id })
}

func (m *model) report() executor.Report {
	return rapid.SampledFrom([]executor.Report{
		completed(), completed(), retryable("again"),
		{Class: executor.Done, Outcome: task.OutcomeFailed, Result: task.Result{State: task.Failed, Reason: "no"}},
	}).Draw(m.rt, "report")
}

func (m *model) finished(h *held, rep executor.Report) {
	h.end <- rep
	m.until("the run to end", func() bool { return h.p.mute() && !slices.Contains(m.runs(), h) || !h.p.w.holds(h.id) })
}

func (m *model) crash() {
	p := m.proc()
	p.kill()
	m.procs[p.slot] = m.newProc(p.slot)
}

func (m *model) loseBeat() {
	p := m.proc()
	if p.mute() {
		return
	}
	p.freeze()
	m.until("its runs to end", func() bool {
		return !slices.ContainsFunc(m.runs(), func(h *held) bool { return h.p == p })
	})
}

func (m *model) regain() {
	for _, p := range m.procs {
		if p.mute() {
			p.thaw()
			p.w.beat(context.Background())
			m.until("its ends to be decided", func() bool { return p.w.Progress().Running == 0 })
		}
	}
}

// beats lets every process that can beat do so n times, each seen by itself
// before the next.
func (m *model) beats(n int) {
	for range n {
		for _, p := range m.procs {
			if !p.mute() {
				p.w.beat(context.Background())
			}
		}
		for _, p := range m.procs {
			if !p.mute() {
				m.until("a beat to come back", func() bool { rev, _ := p.view.OwnBeat(); return rev >= p.w.beatRev })
			}
		}
	}
}

// recover lets time pass until the dead are known to be dead.
func (m *model) recover() {
	m.beats(view.MissedBeats + 1)
	for _, p := range m.procs {
		if !p.mute() {
			require.NoError(m.rt, p.w.recover(context.Background(), false))
		}
	}
}

func (m *model) change(f func(task.Record) (task.Record, error)) {
	d, ok := m.one()
	if !ok {
		return
	}
	r, rev, err := m.l.store.Change(context.Background(), m.inst, d.Task.ID, f, nil)
	if err != nil {
		return // not admitted, or not in a state for it
	}
	for _, p := range m.procs {
		m.until("the views to see it", func() bool { s, ok := p.view.Standing(r.ID); return ok && s.Revision >= rev })
		if !p.mute() {
			p.w.checkRuns()
			m.until("the run to be cancelled", func() bool { return r.State != task.Cancelled || !p.w.holds(r.ID) })
		}
	}
}

func (m *model) cancel() {
	m.change(func(r task.Record) (task.Record, error) { return r.Cancel("by model", time.Now()) })
}

func (m *model) retry() {
	m.change(func(r task.Record) (task.Record, error) {
		n, err := r.Retry(time.Now())
		if err == nil {
			// Its record does not tell that it was retried if it never had an
			// attempt, and the watch may miss it while it is queued.
			m.l.mu.Lock()
			m.l.asked[r.ID] = true
			m.l.mu.Unlock()
		}
		return n, err
	})
}

func (m *model) killAll() {
	for _, p := range m.procs {
		p.kill()
	}
}

// restart is the end of the machine: both processes and the server die.
func (m *model) restart() {
	m.killAll()
	m.l.restart()
	for i := range m.procs {
		m.procs[i] = m.newProc(i)
	}
	m.beats(1)
	require.NoError(m.rt, m.procs[0].w.recover(context.Background(), false))
}
