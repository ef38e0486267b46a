package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

func TestStreamsDiffAndApply(t *testing.T) {
	t.Parallel()
	env := natstest.New(t, natstest.WithListener(), natstest.WithoutStreams())
	cfg := configFile(t, fmt.Sprintf("[nats]\nurl = %q\n[github]\nwebhook_secrets = [\"a-long-enough-secret\"]\n", env.URL())+someFamiliar)
	got := try(t, nil, "streams", "diff", "--config", cfg)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.out, "differs: ")
	require.Contains(t, got.out, "WEBHOOKS")
	require.Contains(t, got.err, "`belay streams apply` changes them")

	got = try(t, nil, "streams", "apply", "--config", cfg)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, "created: ")
	require.Equal(t, result{exitOK, "", ""}, try(t, nil, "streams", "diff", "--config", cfg))
	require.Equal(t, result{exitOK, "", ""}, try(t, nil, "streams", "apply", "--config", cfg))

	s, err := env.JS.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	conf := s.CachedInfo().Config
	conf.Description = "changed by hand"
	_, err = env.JS.UpdateStream(t.Context(), conf)
	require.NoError(t, err)
	got = try(t, nil, "streams", "diff", "--config", cfg)
	require.Contains(t, got.out, "EVENTS")
	got = try(t, nil, "streams", "apply", "--config", cfg)
	require.Contains(t, got.out, "updated: ")

	bad := configFile(t, "[nats]\nurl = \"nats://127.0.0.1:1\"\n[github]\nwebhook_secrets = [\"a-long-enough-secret\"]\n"+someFamiliar)
	got = try(t, nil, "streams", "apply", "--config", bad)
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "check [nats] url")
}
