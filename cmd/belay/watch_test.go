package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/natstest"
)

// deployed reads a file of deploy.
func deployed(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, path...)...))
	require.NoError(t, err)
	return string(text)
}

// alert is a rule of deploy/prometheus/alerts.yml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (out []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployed(t, "prometheus", "alerts.yml")), &file))
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	require.NotEmpty(t, out)
	return out
}

// panelExprs are the expressions of the dashboard, its variables replaced.
func panelExprs(t *testing.T) (out []string) {
	t.Helper()
	var d struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr, RefID string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(deployed(t, "grafana", "belay.json")), &d))
	require.NotEmpty(t, d.UID)
	require.Positive(t, d.SchemaVersion)
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "panel %d comes twice", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			out = append(out, strings.NewReplacer("$__rate_interval", "5m", "$job", "belay").Replace(target.Expr))
		}
	}
	return out
}

// series are the names and labels that a scrape has, by name.
type series map[string][]map[string]string

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? [^ ]+$`)
var pair = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)

func (h *host) scrape() series {
	h.t.Helper()
	resp, err := http.Get("http://" + h.admin + "/metrics")
	require.NoError(h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	out := series{}
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{"job": "belay", "instance": h.admin} // what Prometheus adds
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			labels[p[1]] = p[2]
		}
		out[m[1]] = append(out[m[1]], labels)
	}
	out["up"] = []map[string]string{{"job": "belay", "instance": h.admin}}
	return out
}

var (
	selector = regexp.MustCompile(`\b((?:belay|process|go)_[a-z_]+|up)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|=|!=|!~)"([^"]*)"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// missing says what an expression asks for that a scrape does not have: a metric,
// a label, or a value that one is compared with.
func (s series) missing(expr string) (out []string) {
	labels := map[string]bool{}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		if len(s[m[1]]) == 0 {
			out = append(out, m[1])
			continue
		}
		for _, have := range s[m[1]] {
			for name := range have {
				labels[name] = true
			}
		}
		for _, want := range matcher.FindAllStringSubmatch(m[2], -1) {
			for value := range strings.SplitSeq(want[3], "|") {
				if !slices.ContainsFunc(s[m[1]], func(l map[string]string) bool { return l[want[1]] == value }) {
					out = append(out, fmt.Sprintf("%s{%s=%q}", m[1], want[1], value))
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); !labels[name] {
				out = append(out, "by ("+name+")")
			}
		}
	}
	return out
}

// Every metric, label and value that an alert or a panel asks for is there in a
// belay with all its parts on.
func TestAlertsAndPanelsAskForWhatIsThere(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	gh, err := githubtest.New(githubtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = gh.Close() })
	gh.AddInstallation(1, "acme")
	gh.AddRepo(1, githubtest.Repo{ID: 1, Owner: "acme", Name: "shop"})
	gh.AddIssue(1, githubtest.Issue{Number: 42, Title: "Issue", Login: "octocat"})
	h.file("app.pem", string(gh.PrivateKey()))
	h.environ = []string{fmt.Sprintf("BELAY_GITHUB_APP_ID=%d", gh.AppID()), "BELAY_GITHUB_PRIVATE_KEY_FILE=app.pem", "BELAY_GITHUB_API_URL=" + gh.URL()}
	h.append("belay.toml", "[operator]\nrepo = \"acme/shop\"\n[[operator.keys]]\nid = \"desk\"\nsecret = \"an-operator-secret-of-some-length\"\n")
	p := h.serve()
	h.await(h.send(), "done")
	var s series
	natstest.Eventually(t, "the first samples", func() bool {
		s = h.scrape()
		return len(s["belay_store_limit_bytes"]) > 0 && len(s["belay_redelivery_gap_seconds"]) > 0
	})
	for _, a := range alerts(t) {
		require.Empty(t, s.missing(a.Expr), "%s: %s", a.Alert, a.Expr)
	}
	for _, expr := range panelExprs(t) {
		require.Empty(t, s.missing(expr), expr)
	}
	require.Equal(t, []string{"belay_nothing", `belay_tasks{state="lost"}`, "by (repo)"},
		s.missing(`sum by (repo) (belay_nothing) / belay_tasks{state=~"queued|lost"}`), "a check that cannot fail is none")
	p.stop()
}

// Each alert says what it is, how bad, and where to read on; each is shown to fire.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	tests, runbook := deployed(t, "prometheus", "alerts_test.yml"), deployed(t, "README.md")
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		require.False(t, seen[a.Alert], a.Alert)
		seen[a.Alert] = true
		require.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
		_, anchor, ok := strings.Cut(a.Annotations["runbook_url"], "deploy/README.md#")
		require.True(t, ok, a.Alert)
		require.Contains(t, anchors(runbook), anchor, a.Alert)
		require.Contains(t, tests, `alertname="`+a.Alert+`"`, "alerts_test.yml does not show it fire")
	}
}

// anchors are what the headings of a Markdown text can be linked by.
func anchors(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(kept, " ", "-"))
	}
	return out
}
