package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// DT-99: README's two tenants on the command line of a real process: each sees
// its part, with tokens from files and from the environment.
func TestDT99TenantsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	h.file("acme-token", "the-token-of-acme-0123\n")
	h.append("belay.toml", `
[api]
mode = "token"
service_token = "the-service-token-0123"
[[api.tenants]]
name = "acme"
token_file = "acme-token"
installation_id = 4242
[[api.tenants]]
name = "acme-web"
installation_id = 4242
repos = ["Acme/Web"]
`)
	h.environ = []string{"BELAY_API_TENANTS_ACME_WEB_TOKEN=the-token-of-acme-web-0123"}
	text := h.ok("config", "print")
	require.NotContains(t, text, "0123")
	require.Contains(t, text, `token = "[set]" # env BELAY_API_TENANTS_ACME_WEB_TOKEN`)
	p := h.serve()
	h.client.token = "the-service-token-0123"
	send := func(repo, installation string) string {
		id := h.send("--set", "installation.id="+installation, "--set", "repository.full_name="+repo)
		h.await(id, "done")
		return id
	}
	api, web, other := send("acme/api", "4242"), send("acme/web", "4242"), send("other/x", "5")

	environ := h.environ
	as := func(token string, args ...string) result {
		h.environ = append(environ[:1:1], "BELAY_TOKEN="+token)
		return h.try(args...)
	}
	const acme, acmeWeb = "the-token-of-acme-0123", "the-token-of-acme-web-0123"
	sees := func(token string, args ...string) (seen []string) {
		got := as(token, args...)
		require.Equal(t, exitOK, got.code, "%v: %s", args, got.err)
		for name, id := range map[string]string{"api": api, "web": web, "other": other} {
			if strings.Contains(got.out, id) {
				seen = append(seen, name)
			}
		}
		return seen
	}
	require.ElementsMatch(t, []string{"api", "web"}, sees(acme, "tasks", "ls"))
	require.Equal(t, []string{"web"}, sees(acmeWeb, "tasks", "ls"))
	require.Equal(t, []string{"web"}, sees(acmeWeb, "deliveries", "ls"))
	require.Len(t, sees("the-service-token-0123", "tasks", "ls"), 3)
	foreign := as(acmeWeb, "tasks", "show", api)
	require.Equal(t, exitError, foreign.code)
	require.Contains(t, foreign.err, "unknown task")
	require.Equal(t, strings.ReplaceAll(foreign.err, api, ""), strings.ReplaceAll(as(acmeWeb, "tasks", "show", other).err, other, ""))
	require.Equal(t, exitError, as("no-token-of-anybody-0123", "tasks", "ls").code)

	require.Equal(t, exitOK, as(acmeWeb, "tasks", "retry", web).code)
	usage := as(acmeWeb, "usage", "--days", "1")
	require.Regexp(t, `^INSTALLATION +REPO +FAMILIAR +TASKS +COMPLETED +FAILED +RUNTIME\n4242 +acme/web +cody +1 .*\n$`, usage.out, "a retried task is one")
	natstest.Eventually(t, "the retry to be audited", func() bool {
		return strings.Contains(as(acmeWeb, "audit", "ls", "--kind", "retry").out, "tenant:acme-web")
	})
	require.Regexp(t, `(?m)^4242 +acme +cody +assignments,labels,commands,reviews +Acme/Web +no$`, as(acmeWeb, "routing").out)
	require.Regexp(t, `(?m)^5 +other .* all +no$`, as("the-service-token-0123", "routing").out)
	p.stop()
	require.NotContains(t, p.out.String(), "0123", "no token in the log")
}
