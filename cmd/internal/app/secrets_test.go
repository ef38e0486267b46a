package app

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/redact"
)

// Things that must not be found again. Tokens are made of parts, as a scanner
// of this repository would find them too.
var (
	pattern  = "gh" + "s_" + strings.Repeat("Ab3", 12)
	userinfo = "x-access-token:" + strings.Repeat("q7", 15) + "@"
	live     = "a live value without any pattern"
	marker   = "an ordinary word beside it"
)

// leaky prints and reports all of them, one in two writes.
var leaky = `printf '%s' "$MY_TOKEN" | cut -c1-9 | tr -d '\n'; sleep 0.05; printf '%s\n' "$MY_TOKEN" | cut -c10-; ` +
	`echo "` + pattern + ` https://` + userinfo + `github.com ` + marker + `"; ` +
	`printf '%s' "{\"contract_version\":\"2\",\"status\":\"success\",\"branch\":\"b\",\"commits\":[{\"sha\":\"` + strings.Repeat("a", 40) + `\",\"message\":\"` + pattern + `\"}],` +
	`\"files_changed\":[\"` + pattern + `\"],\"summary\":\"` + marker + ` ` + pattern + ` $MY_TOKEN\",\"pr_body\":\"` + pattern + `\",` +
	`\"review\":{\"mode\":\"none\",\"evidence_status\":\"not_applicable\",\"reviewed_files\":[],\"supporting_files\":[],\"findings\":[],\"tests_run\":[],\"limitations\":[\"` + pattern + `\"]}}" >"$2"`

// stored reads every byte that the process keeps: the messages of all
// streams, with their subjects and headers, and all files but NATS's own.
func stored(t *testing.T, r *rig) map[string]string {
	t.Helper()
	out := map[string]string{}
	names := r.app.js.StreamNames(t.Context())
	for name := range names.Name() {
		s, err := r.app.js.Stream(t.Context(), name)
		require.NoError(t, err)
		info, err := s.Info(t.Context())
		require.NoError(t, err)
		var b bytes.Buffer
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			m, err := s.GetMsg(t.Context(), seq)
			if err != nil {
				continue // replaced by a later one
			}
			b.WriteString(m.Subject + "\n")
			require.NoError(t, http.Header(m.Header).Write(&b))
			b.Write(append(m.Data, '\n'))
		}
		out["stream "+name] = b.String()
	}
	require.NoError(t, names.Err())
	require.NoError(t, filepath.WalkDir(r.cfg.Storage.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "jetstream" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && d.Name() != "nats.password" {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			out[path] = string(data)
		}
		return nil
	}))
	return out
}

// found lists where a text is stored.
func found(all map[string]string, text string) []string {
	var in []string
	for where, content := range all {
		if strings.Contains(content, text) {
			in = append(in, where)
		}
	}
	return in
}

// DT-105, DT-12: nothing that a command printed or reported keeps a token, and
// no body is kept.
func TestDT105NoTokenSurvivesInWhatIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.command(leaky)
		r.cfg.Familiars[0].Env = map[string]redact.Secret{"MY_TOKEN": redact.Secret(live)}
	}).start()
	got := r.await(r.accept(1), "done")
	require.Contains(t, got.Summary, marker)
	require.NotContains(t, got.Summary, pattern)
	r.stop()
	r.start() // the audit trail is written by now

	all := stored(t, r)
	require.GreaterOrEqual(t, len(all), 6)
	for _, secretText := range []string{pattern, pattern[4:], userinfo, strings.TrimSuffix(userinfo, "@")[15:], live, secret, `"user":{"login"`} {
		require.Empty(t, found(all, secretText), "%q", secretText)
	}

	// The scan sees: the words beside the tokens are where these would be, and
	// a token that somebody else stored is found.
	where := strings.Join(found(all, marker), " ")
	require.Contains(t, where, "stream KV_STATE")
	require.Contains(t, where, ".log")
	require.NotEmpty(t, found(all, "[redacted-token]"))
	for _, subject := range []string{"event.x", "audit.x", "webhook.9.9.ignored.ping"} {
		_, err := r.app.js.Publish(t.Context(), subject, []byte(pattern))
		require.NoError(t, err)
	}
	require.Len(t, found(stored(t, r), pattern), 3)
}

// X06: whatever goes wrong, the log says none of the secrets.
func TestX06NoSecretInTheDebugLog(t *testing.T) {
	t.Parallel()
	const token = "a-service-token-of-some-length"
	r := newRig(t, func(r *rig) {
		r.command(leaky + `; exit 7`)
		r.cfg.Worker.MaxRetries = 0
		r.cfg.Familiars[0].Env = map[string]redact.Secret{"MY_TOKEN": redact.Secret(live)}
		r.cfg.API.Mode, r.cfg.API.ServiceToken = config.ModeToken, token
		r.natsConf("debug: true\ntrace: true\nauthorization { user: belay, password: $BELAY_NATS_PASSWORD }\njetstream { sync_interval: 2m }\n")
	}).start()
	bearer := []string{"Authorization", "Bearer " + token}
	id := r.accept(1)
	for status := ""; status != "failed"; {
		a := r.get("/api/github/tasks/"+id, bearer...)
		status, _ = a.field("task").(map[string]any)["status"].(string)
	}
	r.get("/api/github/tasks", "Authorization", "Bearer wrong-"+token)
	r.post("issues", "bad", issue(2), "X-Hub-Signature-256", signature("another body"))
	r.post("issues", "parse", `{"a":`)
	password := r.app.ns.Password()
	require.NoError(t, r.app.ns.Shutdown(t.Context()))
	r.post("issues", "late", issue(3))
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.app.Stop(hurry)

	log := r.log.String()
	for _, said := range []string{`"level":"DEBUG"`, "task ended", "CONNECT", "store_unavailable"} {
		require.Contains(t, log, said, "the log says enough for the test to mean something")
	}
	for _, secretText := range []string{secret, token, password, live, pattern, userinfo, "Bearer ", signature(issue(1))[7:20]} {
		require.NotContains(t, log, secretText)
	}
}
