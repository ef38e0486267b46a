package consumers

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

// fromEnv is a size that a longer run can raise.
func fromEnv(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// Installation A has a long queue, B one task, four slots in two processes: B
// starts within one task's duration, in the first slot that comes free.
func TestQ22SmallInstallationDoesNotWaitForTheBigOne(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	queue := fromEnv("BELAY_TEST_QUEUE", 1000)
	step, started := make(chan struct{}), make(chan int64, queue+10)
	run := func(ctx context.Context, j executor.Job) executor.Report {
		started <- j.Task.InstallationID
		select {
		case <-step:
		case <-ctx.Done():
		}
		return completed()
	}
	var nodes []*bench
	for range 2 {
		b := newBench(t, env, fleet)
		b.runner.f = run
		nodes = append(nodes, b)
	}
	for n := range queue {
		nodes[0].admitted(issue(n))
	}
	for _, b := range nodes {
		b.startWorker()
	}
	for range 4 {
		require.EqualValues(t, 7, <-started)
	}
	d := issue(1)
	d.InstallationID = 8
	small := nodes[0].admitted(d)
	nodes[1].seenAny(small)
	since := time.Now()
	natstest.Eventually(t, "the task to be as ripe as any", func() bool { return time.Since(since) > 2*grace })
	step <- struct{}{}
	require.EqualValues(t, 8, <-started, "the first start after B was queued")
	for _, b := range nodes { // the rest of the queue is nobody's concern
		b.worker.cancelAll(errReleased)
	}
}

// A is at its cap with a long queue: it costs the others nothing, and nobody
// asks for its places again and again.
func TestQ22CappedInstallationNeitherSpinsNorSlowsOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := newBench(t, natstest.New(t), capped(1), func(o *Options) { o.Concurrency = 4 })
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		if j.Task.InstallationID == 7 {
			return hold(release)(ctx, j)
		}
		return completed()
	}
	for n := range fromEnv("BELAY_TEST_QUEUE", 1000) {
		b.admitted(issue(n))
	}
	b.startWorker()
	natstest.Eventually(t, "A's one task to run", func() bool { return b.view.Counts()[task.Running] == 1 })
	count := func() (pulls, refused, writes float64) {
		m := b.worker.met
		for _, answer := range []string{"token", "empty", "failed"} {
			pulls += testutil.ToFloat64(m.pulls.WithLabelValues(answer))
		}
		for _, outcome := range []string{"written", "conflict", "failed"} {
			writes += testutil.ToFloat64(m.slots.WithLabelValues(outcome))
		}
		return pulls, testutil.ToFloat64(m.capped), writes
	}
	pulls, refused, writes := count()
	const others = 50
	for n := range others {
		d := issue(n)
		d.InstallationID = 8
		b.admitted(d)
	}
	natstest.Eventually(t, "all of B's to end beside it", func() bool { return b.view.Counts()[task.Completed] == others })
	p, r, w := count()
	require.LessOrEqual(t, p-pulls, 4.0*others, "pulls")
	require.LessOrEqual(t, r-refused, 4.0, "claims that were refused")
	require.LessOrEqual(t, w-writes, 4.0, "writes of A's places")
	require.Equal(t, 1, b.view.Counts()[task.Running])
	b.worker.cancelAll(errReleased)
	close(release)
}

// A limit that equals the slots costs nothing: all slots are in use while
// there is work (Q23).
func TestQ23AllSlotsAreUsed(t *testing.T) {
	t.Parallel()
	const slots = 8
	b := newBench(t, natstest.New(t), func(o *Options) { o.Concurrency = slots })
	barrier := make(chan struct{}, slots)
	release := make(chan struct{})
	b.runner.f = func(ctx context.Context, j executor.Job) executor.Report {
		barrier <- struct{}{}
		return hold(release)(ctx, j)
	}
	for n := range 3 * slots {
		b.admitted(issue(n))
	}
	b.startWorker()
	natstest.Eventually(t, "every slot to be in use", func() bool { return len(barrier) == slots })
	require.Equal(t, slots, b.worker.Progress().Running)
	for range slots {
		<-barrier
	}
	close(release)
	natstest.Eventually(t, "the rest", func() bool { return b.view.Counts()[task.Completed] == 3*slots || drain(barrier) })
	natstest.Eventually(t, "all to be completed", func() bool { drain(barrier); return b.view.Counts()[task.Completed] == 3*slots })
}

func drain(c chan struct{}) bool {
	select {
	case <-c:
	default:
	}
	return false
}
