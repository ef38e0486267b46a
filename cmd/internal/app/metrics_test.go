package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestMetricsAreNamedByTheRules(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(succeed) }).start()
	r.await(r.accept(1), "done")
	problems, err := testutil.GatherAndLint(r.app.reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := r.app.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.Regexp(t, `^(belay|go|process)_`, f.GetName())
		require.NotEmpty(t, f.GetHelp(), f.GetName())
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				require.NotContains(t, []string{"repo", "installation", "delivery", "task", "id"}, l.GetName(), f.GetName())
			}
		}
	}
}

func TestTasksAreCountedFromTheReadModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.command(gated); r.cfg.Worker.Concurrency = 1 }).start()
	metrics := func() string {
		a := r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "")
		require.Equal(t, http.StatusOK, a.status)
		return a.body
	}
	for _, state := range []string{"queued", "running", "completed", "failed", "superseded", "cancelled"} {
		require.Contains(t, metrics(), `belay_tasks{state="`+state+`"} 0`, "X11: none is shown as 0")
	}
	first, second := r.accept(1), r.accept(2)
	r.await(first, "running")
	r.await(second, "queued")
	shows := func(line string) { // once the watch has brought it
		natstest.Eventually(t, line, func() bool { return strings.Contains(metrics(), line+"\n") })
	}
	shows(`belay_tasks{state="queued"} 1`)
	shows(`belay_tasks{state="running"} 1`)
	require.Contains(t, metrics(), "belay_view_synced 1")
	require.Contains(t, metrics(), "belay_workers 1")
	require.Regexp(t, `belay_build_info\{[^}]*version="test"`, metrics())
	r.release()
	r.awaitAll(2, "done")
	shows(`belay_tasks{state="completed"} 2`)
}

// X01: what a payload says is never a label.
func TestX01SeriesAreBoundedByTheProgramNotByItsInput(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	series := func() int {
		families, err := r.app.reg.Gather()
		require.NoError(t, err)
		n := 0
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	door := r.app.Handler()
	send := func(from, to int) {
		for n := from; n < to; n++ {
			body := fmt.Sprintf(`{"action":"a%d","installation":{"id":%[1]d},"repository":{"id":%[1]d,"full_name":"acme/r%[1]d","name":"r%[1]d","owner":{"login":"acme"}},"sender":{"login":"u%[1]d"}}`, n)
			req := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
			for k, v := range map[string]string{
				"Content-Type": "application/json", "X-GitHub-Event": fmt.Sprintf("event_%d", n%600),
				"X-GitHub-Delivery": fmt.Sprintf("d%d", n), "X-Hub-Signature-256": signature(body),
			} {
				req.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			door.ServeHTTP(w, req)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
		}
	}
	send(0, 10)
	before := series()
	send(10, 3000)
	require.Less(t, series(), before+20, "a few are made when first needed")
	require.Less(t, before, 500)
}

// X03.
func TestX03MetricsAreOnTheAdminListenerOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	require.Equal(t, http.StatusNotFound, r.get("/metrics").status)
	require.Equal(t, http.StatusOK, r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").status)
	for _, path := range []string{"/webhook", "/api/github/tasks"} {
		require.Equal(t, http.StatusNotFound, r.do(http.MethodPost, r.app.AdminURL()+path, "{}").status, path)
	}
}
