package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest/github"
)

// everyEvent are the names of GitHub's documented events that routing or the
// label list may tell apart, and one that nobody knows.
var everyEvent = strings.Fields(`branch_protection_rule check_run check_suite code_scanning_alert commit_comment create
	custom_property custom_property_values delete dependabot_alert deploy_key deployment deployment_protection_rule
	deployment_review deployment_status discussion discussion_comment fork github_app_authorization gollum installation
	installation_repositories installation_target issue_comment issues label marketplace_purchase member membership
	merge_group meta milestone org_block organization package page_build personal_access_token_request ping project
	project_card project_column projects_v2 projects_v2_item public pull_request pull_request_review
	pull_request_review_comment pull_request_review_thread push registry_package release repository
	repository_advisory repository_dispatch repository_import repository_ruleset repository_vulnerability_alert
	secret_scanning_alert secret_scanning_alert_location security_advisory security_and_analysis sponsorship star status
	sub_issues team team_add watch workflow_dispatch workflow_job workflow_run brand_new`)

// 5000 repositories, all events, 300 actions, and the senders and Apps that
// change a disposition: the number of series stays bounded.
func TestX01SeriesAreBounded(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.AppID, cfg.AppLogin = 5, "ourapp[bot]"
	d := newDoor(t, func(o *Options) { o.Config = func() *github.Config { return cfg } })
	actions := strings.Fields("created deleted labeled assigned closed opened synchronize submitted")
	for i := len(actions); i < 300; i++ {
		actions = append(actions, fmt.Sprintf("action_%d", i))
	}
	for i := range 5000 {
		repo := object{"id": 1000 + i, "full_name": fmt.Sprintf("org/repo-%d", i), "default_branch": "main"}
		body := object{
			"action": actions[(i/len(everyEvent))%len(actions)], "repository": repo, "installation": object{"id": i},
			"sender": object{"login": "octocat"}, "issue": object{"number": 1, "title": "t"}, "label": object{"name": "bug"},
			"deleted": i%2 == 0, "comment": object{"body": "hello", "user": object{"login": "octocat"}},
		}
		header := map[string]string{}
		switch i % 17 {
		case 3:
			body["sender"] = object{"login": "ourapp[bot]"}
		case 5:
			header["X-GitHub-Hook-Installation-Target-Type"], header["X-GitHub-Hook-Installation-Target-ID"] = "integration", "6"
		}
		h := hook{event: everyEvent[i%len(everyEvent)], guid: fmt.Sprintf("g%d", i), body: encode(t, body), header: header}
		require.Equal(t, 200, serve(d.Public(), h.request(t, "")).Code)
	}
	for i := range 100 { // secrets and reasons, too
		d.metrics.signed(nil, fmt.Sprint(i))
		require.Equal(t, 401, serve(d.Public(), hook{event: "issues", guid: "x", secret: fmt.Sprint("no", i)}.request(t, "")).Code)
	}
	series := 0
	text := d.get(d.admin + "/metrics").text
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	t.Logf("%d series", series)
	require.Greater(t, series, 100)
	require.Less(t, series, 500)
	for _, name := range []string{"repo-", "org/", "action_", "g42", "brand_new"} {
		require.NotContains(t, text, name)
	}
}

func TestX03MetricsAreOnTheAdminListenerOnly(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, 404, d.get(d.base+"/metrics").status)
	got := d.get(d.admin + "/metrics")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.text, `belay_build_info{version="test"} 1`)
	for _, path := range []string{"/webhook", "/api/github/tasks"} {
		require.Equal(t, 404, d.get(d.admin+path).status, path)
	}
}

func TestMetricNamesPassTheLinter(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, 200, d.post(hook{event: "ping", guid: "one", body: []byte(`{}`)}).status)
	text := d.get(d.admin + "/metrics").text
	require.Contains(t, text, "belay_webhook_deliveries_total")
	problems, err := promlint.New(strings.NewReader(text + "\n")).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			require.True(t, strings.HasPrefix(name, "belay_"), name)
		}
	}
	// Every reason is there before its first time.
	for _, reason := range rejectReasons {
		require.Equal(t, "0", d.metric(`belay_webhook_rejections_total{reason="`+reason+`"}`))
	}
}

// Every row of the error table that names a reason names a listed one.
func TestReasonsAreAClosedList(t *testing.T) {
	t.Parallel()
	for _, a := range answers {
		if a.reason != "" {
			require.Contains(t, rejectReasons, a.reason)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"log":        func(o *Options) { o.Log = nil },
		"config":     func(o *Options) { o.Config = nil },
		"secrets":    func(o *Options) { o.Secrets = nil },
		"registerer": func(o *Options) { o.Registerer = nil },
		"limits":     func(o *Options) { o.MaxInFlight = 1 },
		"mode":       func(o *Options) { o.Access = func() Access { return Access{Mode: "shut"} } },
		"token":      func(o *Options) { o.Access = func() Access { return Access{Mode: ModeToken} } },
		"registered": func(o *Options) {
			o.Registerer.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "belay_http_panics_total", Help: "Other."}))
		},
	} {
		o, _, _, _ := testOptions(change)
		_, err := New(o)
		require.Error(t, err, name)
	}
	o, _, _, _ := testOptions()
	_, err := New(o)
	require.NoError(t, err)
}
