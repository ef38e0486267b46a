package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

const acmeSource = "[[sources]]\nname = \"acme\"\nwebhook_secrets = [\"acme-secret-of-some-length\"]\nwebhook_url = \"https://belay.example/webhook/acme\"\n"

// sourceConfig has the source acme beside default.
func sourceConfig(t *testing.T) string {
	t.Helper()
	return configFile(t, "[github]\nwebhook_secrets = [\"the-newest-secret\"]\nwebhook_url = \"https://belay.example/webhook\"\n"+acmeSource+someFamiliar)
}

// A webhook of a source goes to its address, signed with its secret.
func TestSendToASource(t *testing.T) {
	t.Parallel()
	s := newStub(t, says(200, acceptedTask))
	send := func(args ...string) result {
		return try(t, nil, append([]string{"send", "issues.labeled", "--config", sourceConfig(t), "--server", s.URL}, args...)...)
	}
	got := send("--source", "acme")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, exitOK, send("--source", "default").code)
	require.Equal(t, exitOK, send("--source", "elsewhere", "--secret", "given").code, "of a server with another configuration")
	for i, want := range []struct{ uri, secret string }{
		{"/webhook/acme", "acme-secret-of-some-length"}, {"/webhook", "the-newest-secret"}, {"/webhook/elsewhere", "given"},
	} {
		r := s.requests()[i]
		require.Equal(t, want.uri, r.uri)
		require.Equal(t, sign(redact.Secret(want.secret), []byte(r.body)), r.header.Get("X-Hub-Signature-256"))
	}
	got = send("--source", "other")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--source other: the configuration has no such source: name one of default, acme, or name its secret with --secret-file")
	require.Len(t, s.requests(), 3)

	unknown := newStub(t, says(404, `{"error":"unknown source"}`))
	got = try(t, nil, "send", "issues.labeled", "--config", sourceConfig(t), "--server", unknown.URL, "--source", "acme")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.out+got.err, "check --server and --source")
}

func TestManifestOfASource(t *testing.T) {
	t.Parallel()
	got := try(t, nil, "app", "manifest", "--config", sourceConfig(t), "--source", "acme")
	require.Equal(t, exitOK, got.code, got.err)
	var m manifest
	require.NoError(t, json.Unmarshal([]byte(got.out), &m))
	require.Equal(t, "https://belay.example/webhook/acme", m.Hook.URL)
	got = try(t, nil, "app", "manifest", "--config", sourceConfig(t), "--source", "other")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "name one of default, acme")
	got = try(t, nil, "app", "manifest", "--config", configFile(t, "[[sources]]\nname = \"acme\"\nwebhook_secrets = [\"acme-secret-of-some-length\"]\n"+someFamiliar), "--source", "acme")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "sources[0].webhook_url is not set")
}
