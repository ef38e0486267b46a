package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
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

// TestTokenInARun: the command of a task asks for another token, and gets one
// that GitHub made for its repository.
func TestTokenInARun(t *testing.T) {
	t.Parallel()
	gh, err := githubtest.New(githubtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = gh.Close() })
	gh.AddInstallation(1, "acme")
	gh.AddRepo(1, githubtest.Repo{ID: 1, Owner: "acme", Name: "shop"})
	gh.AddIssue(1, githubtest.Issue{Number: 42, Title: "Issue", Login: "octocat"})
	short, err := os.MkdirTemp("", "b") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	h := newHost(t, fmt.Sprintf("workspace_dir = %q\nmax_retries = 0", short),
		fmt.Sprintf(`%s=1 %q token >"$3/token" && %s=1 %q token --git get >"$3/git" && `, asBelay, os.Args[0], asBelay, os.Args[0])+succeed)
	h.file("app.pem", string(gh.PrivateKey()))
	h.environ = []string{fmt.Sprintf("BELAY_GITHUB_APP_ID=%d", gh.AppID()), "BELAY_GITHUB_PRIVATE_KEY_FILE=app.pem", "BELAY_GITHUB_API_URL=" + gh.URL()}
	require.Contains(t, h.try("doctor", "--online").out, "the App does not get the event")
	p := h.serve()
	h.await(h.send(), "done")
	token, err := os.ReadFile(filepath.Join(h.dir, "token"))
	require.NoError(t, err)
	require.Contains(t, gh.TokenValues(), strings.TrimSpace(string(token)))
	git, err := os.ReadFile(filepath.Join(h.dir, "git"))
	require.NoError(t, err)
	require.Regexp(t, `^username=x-access-token\npassword=\S+\n$`, string(git))
	p.stop()
}
