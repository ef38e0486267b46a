package config

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

func TestEnsureSecret(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	c := Default(dir)
	require.ErrorIs(t, c.UseSecretFile(), ErrNoSecret)
	path, err := c.EnsureSecret()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "webhook-secret"), path)
	require.Len(t, c.GitHub.WebhookSecrets, 1)
	require.Regexp(t, `^[0-9a-f]{64}$`, c.GitHub.WebhookSecrets[0].Reveal())
	for p, mode := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), p)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")

	again := Default(dir)
	require.NoError(t, again.UseSecretFile())
	require.Equal(t, c.GitHub.WebhookSecrets, again.GitHub.WebhookSecrets, "made once")
}

func TestEnsureSecretKeepsWhatIsConfigured(t *testing.T) {
	t.Parallel()
	c := Default(t.TempDir())
	c.GitHub.WebhookSecrets = []redact.Secret{"mine"}
	path, err := c.EnsureSecret()
	require.NoError(t, err)
	require.Empty(t, path)
	require.NoFileExists(t, c.SecretFile())
}

func TestEnsureSecretRefusesAnEmptyFile(t *testing.T) {
	t.Parallel()
	c := Default(t.TempDir())
	require.NoError(t, os.WriteFile(c.SecretFile(), nil, 0o600))
	_, err := c.EnsureSecret()
	require.ErrorContains(t, err, "is empty")
	require.Empty(t, c.GitHub.WebhookSecrets)
}

func TestEnsureSecretAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := make([]redact.Secret, 16)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			c := Default(dir)
			<-start
			if _, err := c.EnsureSecret(); err == nil {
				got[i] = c.GitHub.WebhookSecrets[0]
			}
		})
	}
	close(start)
	wg.Wait()
	for _, s := range got {
		require.NotEmpty(t, s.Reveal())
		require.Equal(t, got[0].Reveal(), s.Reveal())
	}
}
