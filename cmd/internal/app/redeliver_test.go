package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
)

// pastStand is a stand-in of GitHub whose clock is behind by what it returns:
// what is delivered now was delivered a while ago.
func pastStand(t *testing.T) (*githubtest.Server, *atomic.Int64) {
	t.Helper()
	behind := &atomic.Int64{}
	gh, err := githubtest.New(githubtest.Options{
		Key: appKey(), Now: func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gh.Close()) })
	gh.AddInstallation(7, "acme")
	gh.AddRepo(7, githubtest.Repo{ID: 99, Owner: "acme", Name: "api"})
	for n := range 9 {
		gh.AddIssue(99, githubtest.Issue{Number: n + 1, Title: fmt.Sprint("Issue ", n+1), Login: "octocat"})
	}
	return gh, behind
}

// labeled is GitHub's delivery of an issue that got the familiar's label.
func labeled(number int) githubtest.Delivery {
	return githubtest.Delivery{
		GUID: uuid.NewString(), Event: "issues", Action: "labeled", InstallationID: 7, RepositoryID: 99,
		Payload: json.RawMessage(issue(number)),
	}
}

// TestG32WhatFailedWhileTheServerWasDownMakesItsTasks.
func TestG32WhatFailedWhileTheServerWasDownMakesItsTasks(t *testing.T) {
	t.Parallel()
	gh, behind := pastStand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) {
		r.command(succeed)
		r.cfg.Server.Listen = freePort(t)
		r.cfg.Redelivery.Every = 100 * time.Millisecond
	})
	gh.SetWebhook("http://"+r.cfg.Server.Listen+"/webhook", secret)
	behind.Store(int64(5 * time.Minute))
	for n := range 5 {
		require.Equal(t, "failed to connect to host", gh.Deliver(labeled(n+1)).Status)
	}
	quiet := labeled(6)
	quiet.Action = "unlabeled"
	gh.Deliver(quiet)
	behind.Store(0)
	r.start()
	natstest.Eventually(t, "five tasks", func() bool { return len(r.list(100)) == 5 })
	r.awaitAll(5, "done")
	require.Equal(t, 5, gh.Count(githubtest.OpRedeliver), "what routing has no use for is not asked for")
	require.Zero(t, gh.Requests(githubtest.OpDelivery))
	require.Contains(t, r.log.String(), `"msg":"deliveries did not arrive, github is asked for them again"`)
	metrics := func() string { return r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "").body }
	natstest.Eventually(t, "the gap to close", func() bool {
		m := metrics()
		return strings.Contains(m, `belay_redelivery_gap_seconds{source="default"} 0`) &&
			strings.Contains(m, `belay_redelivery_pending{reason="failed",source="default"} 0`)
	})
	require.Contains(t, metrics(), `belay_redelivery_requests_total{result="accepted",source="default"} 5`)
	r.restart()
	natstest.Eventually(t, "a pass of the next process", func() bool {
		return strings.Contains(metrics(), "belay_redelivery_last_poll_timestamp_seconds")
	})
	require.Len(t, r.list(100), 5)
	require.Equal(t, 5, gh.Count(githubtest.OpRedeliver))
}

// TestG36WhatTheStoreCouldNotTakeComesAgain: 503 with a hint, nothing written,
// and the delivery's one task later.
func TestG36WhatTheStoreCouldNotTakeComesAgain(t *testing.T) {
	t.Parallel()
	gh, behind := pastStand(t)
	var down atomic.Bool
	r := newRig(t, onGitHub(gh), func(r *rig) {
		r.command(succeed)
		r.cfg.Redelivery.Every = 100 * time.Millisecond
		r.opts.StoreHooks = &kv.Hooks{Before: func(_ context.Context, op, _ string) error {
			if op == "publish" && down.Load() {
				return errors.Join(kv.ErrFull, errors.New("the leader is gone"))
			}
			return nil
		}}
	}).start()
	gh.SetWebhook(r.app.URL()+"/webhook", secret)
	down.Store(true)
	behind.Store(int64(5 * time.Minute))
	d := gh.Deliver(labeled(1))
	require.Equal(t, http.StatusServiceUnavailable, d.StatusCode)
	require.Empty(t, r.list(10))
	require.Empty(t, r.deliveries())
	down.Store(false)
	behind.Store(0)
	natstest.Eventually(t, "the task", func() bool { return len(r.list(10)) == 1 })
	r.awaitAll(1, "done")
	require.Len(t, r.deliveries(), 1)
	require.Equal(t, 1, gh.Count(githubtest.OpRedeliver))
}

// TestG35WhatAlwaysFailsWasDelivered: its webhook got a 200, so that nobody
// asks GitHub for it again; nor for what is ignored (G13).
func TestG35WhatAlwaysFailsWasDelivered(t *testing.T) {
	t.Parallel()
	gh, behind := pastStand(t)
	r := newRig(t, onGitHub(gh), func(r *rig) {
		r.command("exit 2")
		r.cfg.Worker.MaxRetries = 1
		r.cfg.Redelivery.Every = 50 * time.Millisecond
	}).start()
	gh.SetWebhook(r.app.URL()+"/webhook", secret)
	behind.Store(int64(5 * time.Minute))
	require.Equal(t, 200, gh.Deliver(labeled(1)).StatusCode)
	alien := labeled(2)
	alien.InstallationID, alien.Payload = 0, json.RawMessage(strings.Replace(string(alien.Payload), `"installation":{"id":7},`, "", 1))
	require.Equal(t, 200, gh.Deliver(alien).StatusCode)
	gh.AddDelivery(githubtest.Delivery{GUID: "job", Event: "workflow_job", Action: "queued", StatusCode: 502})
	behind.Store(0)
	got := r.awaitAll(1, "failed")
	require.Len(t, got, 1)
	lists := gh.Requests(githubtest.OpDeliveries)
	natstest.Eventually(t, "two more passes", func() bool { return gh.Requests(githubtest.OpDeliveries) > lists+2 })
	require.Zero(t, gh.Count(githubtest.OpRedeliver))
}
