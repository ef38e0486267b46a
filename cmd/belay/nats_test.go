package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNATSLine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "my data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := configFile(t, "[storage]\ndir = \""+dir+"\"\n"+someFamiliar)
	want := `nats --server nats://127.0.0.1:4222 --user belay --password "$(cat '` + dir + `/nats.password')"`

	got := try(t, nil, "nats", "--config", path)
	require.Equal(t, exitOK, got.code, got.err)
	require.True(t, strings.HasPrefix(got.out, want+"\n"), got.out)
	require.Contains(t, got.out, want+" consumer info WEBHOOKS tasks\n")

	got = try(t, nil, "nats", "--config", path, "--", "kv", "get", "STATE", "a b", "it's")
	require.Equal(t, want+` kv get STATE 'a b' 'it'\''s'`+"\n", got.out)

	got = try(t, nil, "nats", "--config", path, "--reveal")
	require.Equal(t, exitError, got.code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nats.password"), []byte("b0123"), 0o600))
	require.NotContains(t, try(t, nil, "nats", "--config", path).out, "b0123")
	require.Contains(t, try(t, nil, "nats", "--config", path, "--reveal").out, "--password b0123\n")
}

func TestNATSLineOfAFileOfOnesOwn(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte("listen: 0.0.0.0:5222\njetstream {}\n"), 0o600))
	path := configFile(t, "[nats]\nconfig = \""+conf+"\"\n"+someFamiliar)
	require.Contains(t, try(t, nil, "nats", "--config", path).out, "--server nats://127.0.0.1:5222 --user belay")
}

func TestNATSLineOfAnExternalServer(t *testing.T) {
	t.Parallel()
	path := configFile(t, "[nats]\nurl = \"nats://a:4222, nats://b:4222\"\ncreds_file = \"x y.creds\"\ntls_ca = \"ca.pem\"\n"+
		"[github]\nwebhook_secrets = [\"0123456789abcdef\"]\n"+someFamiliar)
	require.Equal(t, "nats --server nats://a:4222,nats://b:4222 --creds 'x y.creds' --tlsca ca.pem stream ls\n",
		try(t, nil, "nats", "--config", path, "--", "stream", "ls").out)
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "plain", "a b", "it's", "$(touch pwned)", "`x`", "a\nb", `back\slash`, "<id>", "*", "~", "é"} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+shellQuote(word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
}
