package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

func (r *rig) replay(id string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, r.app.URL()+"/api/github/deliveries/"+id+"/replay", "{}", "Content-Type", "application/json")
}

// TestReplayRoutesAnIgnoredDeliveryByTheCorrectedConfiguration into one task,
// however often, and by whoever at once.
func TestReplayRoutesAnIgnoredDeliveryByTheCorrectedConfiguration(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) {
		r.command(succeed)
		r.cfg.Familiars[0].TriggerLabels = []string{"bgu"} // a slip
	}).start()
	gh.SetWebhook(r.app.URL()+"/webhook", secret)
	d := gh.Deliver(labeled(1))
	for range 120 { // onto the second page
		gh.AddDelivery(githubtest.Delivery{GUID: "other", Event: "star", StatusCode: 200})
	}
	require.Equal(t, 200, d.StatusCode)
	require.Empty(t, r.list(10))
	a := r.replay(d.GUID)
	require.Equal(t, http.StatusConflict, a.status, a.body)
	require.Contains(t, a.body, "still ignored as unroutable: change the configuration first")
	require.Len(t, r.deliveries(), 1, "nothing is stored")

	r.stop()
	r.cfg.Familiars[0].TriggerLabels = []string{"bug"}
	r.start()
	var all sync.WaitGroup
	var mu sync.Mutex
	tasks, fresh := map[string]bool{}, 0
	for range 4 {
		all.Go(func() {
			a := r.replay(d.GUID)
			mu.Lock()
			defer mu.Unlock()
			if a.status != http.StatusOK { // one at a time
				return
			}
			tasks[a.text("task")] = true
			if a.field("duplicate") == nil {
				fresh++
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, fresh)
	require.Len(t, tasks, 1)
	got := r.awaitAll(1, "done")
	require.True(t, tasks[got[0].ID])
	again := r.replay(d.GUID)
	require.Equal(t, true, again.field("duplicate"))
	require.Equal(t, got[0].ID, again.text("task"))
	require.Len(t, r.deliveries(), 2)
	require.Equal(t, "replay:"+d.GUID, r.deliveries()[0]["id"])
	require.Equal(t, d.GUID, r.deliveries()[0]["replayOf"])
	require.Equal(t, r.deliveries()[1]["payloadHash"], r.deliveries()[0]["payloadHash"])
	require.Equal(t, http.StatusOK, r.get("/api/github/deliveries/replay:"+d.GUID).status)

	gh.SetWebhook(r.app.URL()+"/webhook", secret)
	// The original comes once more, and its body under another id (no replay
	// guard had seen it while it was ignored; now it has).
	require.Equal(t, http.StatusOK, gh.Deliver(gh.Deliveries()[0]).StatusCode)
	second := r.post("issues", "another-id", string(d.Payload))
	require.NotEmpty(t, second.text("task"))
	require.Equal(t, "replayed", r.await(second.text("task"), "superseded").Reason)
	require.Len(t, r.list(10), 2)
}

// TestReplayRefusesWhatItCannotDo, and says what to do.
func TestReplayRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	gh, behind := pastStand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) { r.command(succeed) }).start()
	gh.SetWebhook(r.app.URL()+"/webhook", secret)
	d := gh.Deliver(labeled(1))
	id := r.awaitAll(1, "done")[0].ID
	a := r.replay(d.GUID)
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.body, "delivery made task "+id+": retry that task instead")
	require.Equal(t, http.StatusNotFound, r.replay("unknown").status)
	a = r.do(http.MethodPost, r.app.URL()+"/api/github/deliveries/"+d.GUID+"/replay", "{}", "Content-Type", "text/plain")
	require.Equal(t, http.StatusUnsupportedMediaType, a.status)

	quiet := labeled(2)
	quiet.Payload = []byte(strings.Replace(string(quiet.Payload), `"label":{"name":"bug"}`, `"label":{"name":"other"}`, 1))
	quiet = gh.Deliver(quiet)
	gh.Fail(githubtest.Fault{Op: githubtest.OpDelivery, Kind: githubtest.ErrorBefore})
	require.Equal(t, http.StatusServiceUnavailable, r.replay(quiet.GUID).status)
	behind.Store(-int64(73 * time.Hour))
	a = r.replay(quiet.GUID)
	require.Equal(t, http.StatusGone, a.status, a.body)
	require.Contains(t, a.body, "three days")
	require.Len(t, r.deliveries(), 2)

	// Without an App.
	alone := newRig(t).start()
	body := strings.Replace(issue(3), `"label":{"name":"bug"}`, `"label":{"name":"other"}`, 1)
	require.Equal(t, "unroutable", alone.post("issues", "no-app", body).text("ignored"))
	a = alone.replay("no-app")
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.body, "a replay needs a GitHub App")
}

// TestReplayIsOfTheDeliveryInTheLog: an App's delivery is no replay of what a
// repository's own hook sent under the same id (G01).
func TestReplayIsOfTheDeliveryInTheLog(t *testing.T) {
	t.Parallel()
	gh := stand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) { r.command(succeed) }).start()
	body := strings.Replace(issue(1), `"installation":{"id":7},`, "", 1)
	require.Equal(t, "no_installation", r.post("issues", "shared", body, "X-GitHub-Hook-ID", "5").text("ignored"))
	d := labeled(1)
	d.GUID, d.StatusCode = "shared", 200
	gh.AddDelivery(d)
	a := r.replay("shared")
	require.Equal(t, http.StatusConflict, a.status, a.body)
	require.Contains(t, a.body, "a repository's own hook sent that")
	require.Empty(t, r.list(10))
}

// A delivery of a further source is read from its own App, and routed as its
// source routes.
func TestReplayOfAFurtherSource(t *testing.T) {
	t.Parallel()
	first, second := twoApps(t)
	r := newRig(t, onGitHub(first), withAcme(second), func(r *rig) {
		r.command(succeed)
		r.cfg.Familiars[0].TriggerLabels = []string{"bgu"}
	}).start()
	second.SetWebhook(r.app.URL()+"/webhook/acme", acmeSecret)
	d := labeled(1)
	d.InstallationID, d.Payload = 8, json.RawMessage(of(8, issue(1)))
	require.Equal(t, http.StatusOK, second.Deliver(d).StatusCode)
	r.stop()
	r.cfg.Familiars[0].TriggerLabels = []string{"bug"}
	r.start()
	a := r.replay(d.GUID)
	require.Equal(t, http.StatusOK, a.status, a.body)
	r.await(a.text("task"), "done")
	require.Equal(t, "acme", r.deliveries()[0]["source"])
	require.Len(t, second.Checks(99), 1, "its own App answers")
	require.Empty(t, first.Checks(99))

	r.stop()
	r.cfg.Sources = nil
	r.start()
	second.SetWebhook(r.app.URL()+"/webhook", secret)
	gone := r.replay(d.GUID)
	require.Equal(t, http.StatusOK, gone.status, "it was replayed before: %s", gone.body)
	require.Equal(t, true, gone.field("duplicate"))
}
