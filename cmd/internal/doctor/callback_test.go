package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// whsec is a secret as Standard Webhooks has it.
const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw2J9Pm0aGx1c="

// called is a healthy configuration with one callback that is used.
func called(t *testing.T) string {
	return healthy(dataDir(t)) + "callback = \"ci\"\n[[callbacks]]\nname = \"ci\"\nurl = \"https://ci.example/hook\"\nsecrets = [\"" + whsec + "\"]\n"
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, called(t), quiet()))
	with := func(from, to string) Findings { return check(t, strings.Replace(called(t), from, to, 1), quiet()) }
	only(t, with("callback = \"ci\"\n", ""), "callbacks[0].name", Warning, `no familiar names "ci"`)
	only(t, with("[[callbacks]]", "[[callbacks]]\nallow_private = true"), "callbacks[0].allow_private", Warning, "private networks")
	only(t, with("url = \"https", "allow_private = true\nurl = \"http"), "callbacks[0].url", Warning, "plain http")
	only(t, with(whsec+`"`, whsec+`", "`+strings.Replace(whsec, "MfK", "MfL", 1)+`"`), "callbacks[0].secrets", Warning, "two")
}

func TestCallbackProblemsAreErrors(t *testing.T) {
	t.Parallel()
	only(t, check(t, strings.Replace(called(t), "callback = \"ci\"", "callback = \"cd\"", 1)+"", quiet())[:1], "familiars[0].callback", Error, "is not a callback")
	loose := file(t, whsec, 0o644)
	got := check(t, strings.Replace(called(t), "secrets = [\""+whsec+"\"]", "secret_files = [\""+loose+"\"]", 1), quiet())
	only(t, got, "callbacks[0].secret_files", Warning, "mode 0644")
	loose = file(t, "a-bearer-of-some-length", 0o644)
	only(t, check(t, called(t)+"bearer_file = \""+loose+"\"\n", quiet()), "callbacks[0].bearer_file", Warning, "mode 0644")
}

func TestAppKeyAndMarkers(t *testing.T) {
	t.Parallel()
	with := func(lines string) Findings {
		return check(t, strings.Replace(healthy(dataDir(t)), "[github]", "[github]\n"+lines, 1), quiet())
	}
	only(t, with("app_id = 1\nprivate_key = \"hunter2\""), "github.private_key", Warning, "does not look like PEM")
	only(t, with("marker_secrets = [\"hunter2\"]"), "github.marker_secrets[0]", Warning, "shorter than 16")
	only(t, with("marker_secret_files = [\""+file(t, "0123456789abcdef", 0o644)+"\"]"), "github.marker_secret_files", Warning, "mode 0644")
}
