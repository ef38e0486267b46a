package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// fleet is several belay processes on a nats-server of its own process.
type fleet struct {
	*rig
	nats *child
	job  job
	url  string
}

// tell is a gated command that first tells which attempt runs.
const tell = `echo "$BELAY_TASK_ID/$BELAY_ATTEMPT" >>"$3/starts"; ` + gated

func newFleet(t *testing.T) *fleet {
	dir := t.TempDir()
	port := freePort(t)
	f := &fleet{rig: rigOf(t, dir), url: "nats://" + port}
	f.nats = spawn(t, job{Dir: dir, NATS: true, Port: port})
	f.job = job{
		Dir: dir, URL: f.url, Name: "worker", Script: tell, Concurrency: 1, MaxRetries: 2,
		Drain: time.Millisecond, Beat: 500 * time.Millisecond,
	}
	return f
}

// starts are the attempts that began, in order.
func (f *fleet) starts() []string {
	data, err := os.ReadFile(filepath.Join(f.dir, "starts"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(f.t, err)
	return strings.Fields(string(data))
}

func (f *fleet) startedAttempts(n int) {
	f.t.Helper()
	natstest.Eventually(f.t, "attempts to start", func() bool { return len(f.starts()) >= n })
}

// waiting counts the running commands of a task.
func (f *fleet) waiting(id string) int {
	f.t.Helper()
	envs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(f.t, err)
	n := 0
	for _, p := range envs {
		// One that ends meanwhile, or is another user's, is none of ours.
		env, _ := os.ReadFile(p)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
		if strings.Contains(string(env), "BELAY_TASK_ID="+id+"\x00") && strings.Contains(string(line), "/starts") {
			n++
		}
	}
	return n
}

func outcomes(i item) []string {
	var out []string
	for _, a := range i.Attempts {
		out = append(out, a.Outcome)
	}
	return out
}

// DT-70, DT-73, DT-81: another process takes over when the beats stopped.
func TestFleetTakesOverFromAKilledProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := spawn(t, f.job)
	f.speakTo(a)
	id := f.accept(1)
	f.startedAttempts(1)
	b := spawn(t, f.job)
	f.speakTo(b)
	a.kill()
	f.startedAttempts(2)
	f.release()
	require.Equal(t, []string{"interrupted", "completed"}, outcomes(f.await(id, "done")))
	require.Equal(t, []string{id + "/1", id + "/2"}, f.starts())
}

// J04, DT-71: a frozen holder loses, wakes, notices, discards.
func TestFleetFrozenHolderLosesItsAttempt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.job.Beat = time.Second
	a := spawn(t, f.job)
	f.speakTo(a)
	id := f.accept(1)
	f.startedAttempts(1)
	b := spawn(t, f.job)
	f.speakTo(b)
	a.signal(syscall.SIGSTOP)
	f.startedAttempts(2)
	require.Equal(t, 1, f.waiting(id), "the frozen one's command has ended before another begins")
	f.release()
	done := f.await(id, "done")
	a.signal(syscall.SIGCONT)
	f.speakTo(a)
	natstest.Eventually(t, "the woken process to work again", func() bool { return f.get("/readyz").status == 200 })
	second := f.accept(2)
	f.await(second, "done")
	require.Equal(t, done, f.task(id), "what the woken one had is refused")
	require.Equal(t, []string{"interrupted", "completed"}, outcomes(done))
}

// Q18: two processes of one name never disturb each other.
func TestQ18ProcessesOfOneNameDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := spawn(t, f.job)
	f.speakTo(a)
	first := f.accept(1)
	f.startedAttempts(1)
	b := spawn(t, f.job)
	f.speakTo(b)
	second := f.accept(2)
	f.startedAttempts(2)
	f.release()
	require.Equal(t, []string{"completed"}, outcomes(f.await(first, "done")))
	require.Equal(t, []string{"completed"}, outcomes(f.await(second, "done")))
}

// A crash of the nats-server steals no live run.
func TestFleetNATSCrashStealsNoLiveRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.job.Beat = 3 * time.Second // the nats-server is back before four are missed
	a, b := spawn(t, f.job), spawn(t, f.job)
	f.speakTo(a)
	id := f.accept(1)
	f.startedAttempts(1)
	f.nats.kill()
	f.nats = spawn(t, job{Dir: f.dir, NATS: true, Port: strings.TrimPrefix(f.url, "nats://")})
	for _, c := range []*child{a, b} {
		f.speakTo(c)
		natstest.Eventually(t, "the process to be ready again", func() bool { return f.get("/readyz").status == 200 })
	}
	f.release()
	require.Equal(t, []string{"completed"}, outcomes(f.await(id, "done")))
}

// Q10, J11: while NATS does not answer, runs are given up in time, nothing is
// spent, and work resumes by itself.
func TestQ10SilentNATSCostsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := spawn(t, f.job)
	f.speakTo(a)
	id := f.accept(1)
	f.startedAttempts(1)
	f.nats.signal(syscall.SIGSTOP)
	natstest.Eventually(t, "the process to say so", func() bool {
		got := f.get("/readyz")
		return got.status == 503 && strings.Contains(got.body, "beat")
	})
	f.nats.signal(syscall.SIGCONT)
	f.startedAttempts(2)
	f.release()
	got := outcomes(f.await(id, "done"))
	require.Equal(t, "completed", got[len(got)-1])
	for _, o := range got[:len(got)-1] {
		require.Equal(t, "released", o)
	}
}

// DT-78, Q09: a drained process releases what does not end in time; it runs
// elsewhere at once, and the attempt is free.
func TestDT78ReleasedWorkRunsElsewhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.job.MaxRetries = 0
	a := spawn(t, f.job)
	f.speakTo(a)
	id := f.accept(1)
	f.startedAttempts(1)
	b := spawn(t, f.job)
	a.signal(syscall.SIGTERM)
	a.wait()
	require.Zero(t, a.cmd.ProcessState.ExitCode())
	f.speakTo(b)
	f.startedAttempts(2)
	f.release()
	require.Equal(t, []string{"released", "completed"}, outcomes(f.await(id, "done")))
}
