package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
)

func TestToken(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	var fail error
	b, err := githubapp.NewTokenBroker(githubapp.BrokerOptions{Path: socket, Token: func(context.Context) (githubapp.Token, error) {
		return githubapp.Token{Value: "ghs_fresh", ExpiresAt: clock}, fail
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	environ := []string{githubapp.TokenSocketEnv + "=" + socket}
	require.Equal(t, result{exitOK, "ghs_fresh\n", ""}, try(t, environ, "token"))
	require.JSONEq(t, `{"token":"ghs_fresh","expiresAt":"`+clock.Format(time.RFC3339)+`"}`, try(t, environ, "token", "-o", "json").out)
	require.Equal(t, result{exitOK, "username=x-access-token\npassword=ghs_fresh\n", ""}, try(t, environ, "token", "--git", "get"))
	require.Equal(t, result{exitOK, "", ""}, try(t, environ, "token", "--git", "erase"))
	require.Equal(t, exitUsage, try(t, environ, "token", "get").code)

	fail = errors.New("installation is suspended")
	got := try(t, environ, "token")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "installation is suspended: see the log of the belay that runs the task")
	require.Empty(t, got.out)
	require.NoError(t, b.Close())
	got = try(t, environ, "token")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "the run has ended")
}

func TestTokenOutsideOfARun(t *testing.T) {
	t.Parallel()
	got := try(t, nil, "token")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "$BELAY_TOKEN_SOCKET is not set: this works only in a task's command")
}
