package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/streams"
	"github.com/belay-run/belay/kv/task"
)

// A backup is whole though deliveries are accepted and records change all the
// time while it is taken: what was admitted before it has its record in it.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	for n := range 500 {
		s.admit(n, task.Queued)
	}
	s.admitted()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	for w := range 2 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				d := delivery(n % 500)
				_, _, _ = s.tasks.Change(ctx, d.InstallationID, kv.TaskID(d.Source, string(d.ID)), func(r task.Record) (task.Record, error) {
					r.Summary = fmt.Sprintf("%d by %d", n, w)
					return r, nil
				}, nil)
				_, _ = s.log.Accept(ctx, delivery(1000+2*n+w))
			}
		})
	}
	for busy, tries := 0, 0; busy < 3; tries++ {
		require.Less(t, tries, 100, "records were never written while they were read")
		a := opened(t, take(t, s.env, TakeOptions{}))
		require.False(t, a.Manifest.Quiet)
		require.EqualValues(t, 500, a.Manifest.Admitted)
		if a.Manifest.Streams[0].Changes > 0 {
			busy++
		}
		found, err := Verify(t.Context(), a, t.TempDir(), nil)
		require.NoError(t, err, "%v", found.Problems)
		require.GreaterOrEqual(t, found.Tasks, 500)
		require.GreaterOrEqual(t, found.Deliveries, 500)
	}
}

// A record that a snapshot lacks, though its delivery had been admitted, is
// found.
func TestVerifyFindsALostRecord(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	s.admit(1, task.Queued)
	s.accept(2)
	s.admitted()
	a := opened(t, take(t, s.env, TakeOptions{}))
	found, err := Verify(t.Context(), a, t.TempDir(), nil)
	require.ErrorIs(t, err, ErrProblems)
	require.Equal(t, 1, found.Lost)
	require.Contains(t, found.Problems[0], "delivery 2 (d-2)")

	a.Manifest.Streams[1].Messages++
	found, err = Verify(t.Context(), a, t.TempDir(), nil)
	require.ErrorIs(t, err, ErrProblems)
	require.Contains(t, found.Problems[1], "stream WEBHOOKS: restored are 2 messages, 1 to 2; the backup says 3, 1 to 2")
}

// A restore wants an empty place, and touches no other.
func TestRestoreRefusesAStore(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	s.admit(1, task.Queued)
	a := opened(t, take(t, s.env, TakeOptions{}))
	o := RestoreOptions{Hold: kv.HoldOptions{Now: time.Now}}
	_, err := Restore(t.Context(), s.env.NC, a, o)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.EqualValues(t, 1, count(t, s.env.JS, kv.StreamWebhooks))

	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700))
	_, err = RestoreDir(t.Context(), dir, "", a, o)
	require.ErrorIs(t, err, ErrNotEmpty)
	unlock, err := natsserver.Lock(filepath.Join(dir, "taken"))
	require.NoError(t, err)
	_, err = RestoreDir(t.Context(), filepath.Join(dir, "taken"), "", a, o)
	require.ErrorIs(t, err, natsserver.ErrDirTaken)
	require.NoError(t, unlock())
}

// Nothing half-written is left of a restore that fails, and no belay starts
// while one goes on.
func TestRestoreThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	for n := range 50 {
		s.admit(n, task.Queued)
	}
	a := opened(t, take(t, s.env, TakeOptions{}))
	env := natstest.New(t, natstest.WithoutStreams())
	set, err := streams.Load(belay.StreamsJSON)
	require.NoError(t, err)
	_, err = Restore(t.Context(), env.NC, a, RestoreOptions{Hold: kv.HoldOptions{Now: func() time.Time {
		_, err := streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
		require.ErrorIs(t, err, streams.ErrNewerStore, "while it goes on")
		return time.Now()
	}}})
	require.NoError(t, err)
	_, err = streams.Reconcile(t.Context(), env.JS, set, streams.Options{})
	require.NoError(t, err, "afterwards")

	a = opened(t, take(t, s.env, TakeOptions{}))
	a.Manifest.Streams[1].Chunks++ // then what comes next is not what should
	env, dir := natstest.New(t, natstest.WithoutStreams()), t.TempDir()
	o := RestoreOptions{Hold: kv.HoldOptions{Now: time.Now}}
	_, err = Restore(t.Context(), env.NC, a, o)
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, empty(t.Context(), env.JS))
	_, err = RestoreDir(t.Context(), dir, "", a, o)
	require.ErrorIs(t, err, ErrDamaged)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the lock: %v", left)
}

// Only what nobody worked on can be continued.
func TestContinueHoldsNothingBack(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.New(t))
	s.admit(1, task.Completed, task.Intent{N: 0, Channel: "callback:ci", To: "x", Payload: []byte(`{}`)})
	require.NoError(t, func() error { _, err := s.tasks.Beat(t.Context(), "b1", "one"); return err }())
	busy := opened(t, take(t, s.env, TakeOptions{}))
	require.False(t, busy.Manifest.Quiet)
	_, err := Restore(t.Context(), s.env.NC, busy, RestoreOptions{Continue: true})
	require.ErrorIs(t, err, ErrNotQuiet)
	require.True(t, opened(t, take(t, s.env, TakeOptions{Alone: true})).Manifest.Quiet, "its lock proves that the beat is of a dead one")

	require.NoError(t, s.tasks.EndBeats(t.Context(), "b1"))
	r, held := elsewhere(t, take(t, s.env, TakeOptions{}), RestoreOptions{Continue: true})
	require.Equal(t, kv.Held{}, held)
	b, err := kv.OpenBucket(t.Context(), r.env.JS)
	require.NoError(t, err)
	_, err = b.Get(t.Context(), kv.ControlPause)
	require.ErrorIs(t, err, kv.ErrNotFound)
	pending, err := r.outbox.Pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending, "the relay derives it at the start")
}

// The store of a stopped belay is read under its lock, that of a running one
// through its listener; it comes back as it was.
func TestFromAndToADataFolder(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener())
	s := open(t, env)
	r := s.admit(1, task.Queued)
	c := config.Default(env.Dir)
	o := TakeOptions{Now: time.Now}
	running := filepath.Join(t.TempDir(), "running")
	_, err := File(t.Context(), c, through(env), running, t.TempDir(), o, nil)
	require.NoError(t, err)

	copied := filepath.Join(t.TempDir(), "data")
	env.NC.Close()
	require.NoError(t, env.Server.Shutdown(t.Context()))
	require.NoError(t, os.CopyFS(copied, os.DirFS(env.Dir)))
	stopped := filepath.Join(t.TempDir(), "stopped")
	c = config.Default(copied)
	found, err := File(t.Context(), c, nil, stopped, t.TempDir(), o, nil)
	require.NoError(t, err)
	require.Equal(t, 1, found.Tasks)
	require.True(t, opened(t, stopped).Manifest.Quiet)
	require.NoFileExists(t, stopped+".part")
	info, err := os.Stat(stopped)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	for _, path := range []string{running, stopped} {
		c := config.Default(filepath.Join(t.TempDir(), "data"))
		held, err := To(t.Context(), c, nil, opened(t, path), RestoreOptions{Hold: kv.HoldOptions{Now: time.Now}})
		require.NoError(t, err)
		require.Equal(t, 1, held.Live)
		require.NoError(t, From(t.Context(), c, nil, func(nc *nats.Conn, alone bool) error {
			require.True(t, alone)
			store, err := kv.OpenTaskStore(t.Context(), jetstreamOf(t, nc))
			require.NoError(t, err)
			got, _, err := store.Get(t.Context(), r.InstallationID, r.ID)
			require.Equal(t, r, got)
			return err
		}))
	}
	require.ErrorIs(t, From(t.Context(), config.Default(t.TempDir()), nil, nil), ErrNoStore)
}
