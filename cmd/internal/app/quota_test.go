package app

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
)

// DT-96, DT-92: over its daily cap an installation's deliveries are recorded
// as ignored. A repeat keeps its first answer and costs nothing.
func TestDT96DailyCapOfTheConfiguration(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	var ahead atomic.Int64
	r := newRig(t, func(r *rig) {
		r.cfg.Installations = []config.Installation{
			listed(7, func(in *config.Installation) { in.Limits.MaxTasksPerDay = 2 }), listed(8),
		}
		r.opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		r.opts.StoreHooks = &kv.Hooks{Before: func(_ context.Context, op, key string) error {
			if op == "publish" || strings.HasPrefix(key, "quota.7") {
				if full.Load() {
					return kv.ErrFull
				}
			}
			return nil
		}}
	}).start()
	bodies := map[int]string{}
	send := func(id string, n int) answer {
		if bodies[n] == "" {
			bodies[n] = issue(n)
		}
		return r.post("issues", id, bodies[n])
	}
	first := send("one", 1)
	require.NotEmpty(t, first.text("task"))
	require.Equal(t, first.text("task"), send("one", 1).text("task"), "a repeat")

	full.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, send("lost", 2).status, "neither counted nor stored")
	full.Store(false)
	require.NotEmpty(t, send("two", 3).text("task"))
	over := send("three", 4)
	require.Equal(t, "quota_exceeded", over.text("ignored"))
	again := send("three", 4)
	require.Equal(t, "quota_exceeded", again.text("ignored"))
	require.Equal(t, true, again.field("duplicate"))
	require.Equal(t, first.text("task"), send("one", 1).text("task"), "over the cap a repeat keeps its answer too")
	require.NotEmpty(t, r.post("issues", uuid.NewString(), of(8, issue(5))).text("task"), "who has no cap is not counted")
	b, err := kv.OpenBucket(t.Context(), r.app.js)
	require.NoError(t, err)
	_, err = b.Get(t.Context(), kv.QuotaKey(8))
	require.ErrorIs(t, err, kv.ErrNotFound)
	require.Contains(t, r.story("three"), "had its number of tasks of the last 24 hours")
	require.Equal(t, "ignored", r.post("issues", "x", strings.Replace(issue(6), "labeled", "pinned", 1)).key(), "what makes no task is not counted")

	ahead.Store(int64(25 * time.Hour))
	require.NotEmpty(t, send("four", 7).text("task"), "a day later")
}

// key is the name of the answer's disposition.
func (a answer) key() string {
	for _, k := range []string{"task", "ignored"} {
		if a.field(k) != nil {
			return k
		}
	}
	return ""
}

// A crash between the count and the message counts one too many: the next life
// accepts one less, never one more.
func TestDT96ACrashCountsOneTooMany(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	r := newRig(t, func(r *rig) {
		r.cfg.Installations = []config.Installation{listed(7, func(in *config.Installation) { in.Limits.MaxTasksPerDay = 2 })}
		r.opts.StoreHooks = &kv.Hooks{Before: func(ctx context.Context, op, _ string) error {
			if lose.Load() && op == "publish" {
				<-ctx.Done() // the process goes before it is told
				return kv.ErrUnknown
			}
			return nil
		}}
	}).start()
	body := issue(1)
	lose.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, r.post("issues", "one", body).status)
	lose.Store(false)
	r.restart()
	require.NotEmpty(t, r.post("issues", "one", body).text("task"))
	require.Equal(t, "quota_exceeded", r.post("issues", "two", issue(2)).text("ignored"))
	require.Len(t, r.deliveries(), 2)
}
