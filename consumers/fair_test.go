package consumers

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

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
	step, started := make(chan struct{}), make(chan int64, 1000)
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
	for n := range fromEnv("BELAY_TEST_QUEUE", 300) {
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
	close(step)
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
