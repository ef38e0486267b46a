package githubapp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestTheAppAsGitHubKnowsIt is what doctor compares.
func TestTheAppAsGitHubKnowsIt(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *githubtest.Options, _ *Options) { o.Events = []string{"issues"} })
	got, err := k.client.App(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), got.Clock, time.Minute)
	got.Clock = time.Time{}
	require.Equal(t, AppInfo{
		ID: 4711, Slug: "belay-test", Login: "belay-test[bot]", Permissions: githubtest.DefaultPermissions(), Events: []string{"issues"},
		HookURL: "https://belay.example/webhook", HookContentType: "json", HookSecret: true,
	}, got)
	k.SetHook(map[string]string{"url": "http://x.example", "content_type": "form", "insecure_ssl": "1"})
	got, err = k.client.App(t.Context())
	require.NoError(t, err)
	require.True(t, got.HookInsecure)
	require.False(t, got.HookSecret)
	require.Equal(t, "form", got.HookContentType)
}

// TestAnEnterpriseServerIsAnotherHostAndPath and nothing else.
func TestAnEnterpriseServerIsAnotherHostAndPath(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *githubtest.Options, _ *Options) { o.Enterprise = true })
	require.Contains(t, k.URL(), "/api/v3/")
	for i := range 120 {
		k.AddComment(100, githubtest.Comment{Number: 7, Login: bob, Body: string(rune('a' + i%26))})
	}
	n, err := k.surfaces(t, SurfacesOptions{}).Begin(t.Context(), k.fix("t1"))
	require.NoError(t, err)
	k.SetBranch(100, "fix/7", githubtest.SHA("fix"))
	_, err = n.Finish(t.Context(), fixed())
	require.NoError(t, err)
	require.Equal(t, 1, k.Count(githubtest.OpCreateComment))
	require.Len(t, k.Pulls(100), 2)
}

// TestNewRefuses what could not work or would not be safe.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())})
	der, err := x509.MarshalPKCS8PrivateKey(appKey())
	require.NoError(t, err)
	pkcs8 := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err = x509.MarshalPKCS8PrivateKey(ec)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"good":            {Options{AppID: 1, PrivateKey: pkcs1}, ""},
		"PKCS #8":         {Options{AppID: 1, PrivateKey: pkcs8}, ""},
		"enterprise":      {Options{AppID: 1, PrivateKey: pkcs1, APIURL: "https://ghe.example/api/v3"}, ""},
		"loopback":        {Options{AppID: 1, PrivateKey: pkcs1, APIURL: "http://127.0.0.1:9/"}, ""},
		"no id":           {Options{PrivateKey: pkcs1}, "app id is 0"},
		"no key":          {Options{AppID: 1}, "no PEM block"},
		"no key in PEM":   {Options{AppID: 1, PrivateKey: pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: []byte("secret")})}, "neither PKCS #1 nor PKCS #8"},
		"an EC key":       {Options{AppID: 1, PrivateKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, "no RSA key"},
		"in the clear":    {Options{AppID: 1, PrivateKey: pkcs1, APIURL: "http://ghe.example/api/v3/"}, "in the clear"},
		"with a password": {Options{AppID: 1, PrivateKey: pkcs1, APIURL: "https://u:secret@ghe.example/"}, "form"},
		"no URL":          {Options{AppID: 1, PrivateKey: pkcs1, APIURL: "ghe.example"}, "form"},
	} {
		_, err := New(c.o)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "secret", name)
	}
}

// TestTheManifestAsksForWhatTheRoutesNeed and no more.
func TestTheManifestAsksForWhatTheRoutesNeed(t *testing.T) {
	t.Parallel()
	base := map[string]string{"metadata": "read", "contents": "write", "checks": "write", "issues": "write", "pull_requests": "write"}
	for name, c := range map[string]struct {
		routes Routes
		events []string
		more   map[string]string
	}{
		"nothing":     {Routes{}, nil, nil},
		"assignments": {Routes{Assignment: true}, []string{"issues"}, nil},
		"labels":      {Routes{Label: true}, []string{"issues", "pull_request"}, nil},
		"reviews":     {Routes{Review: true}, []string{"pull_request"}, nil},
		"commands":    {Routes{Command: true}, []string{"issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"}, nil},
		"rules": {
			Routes{Rules: []string{"push", "workflow_run", "issues"}}, []string{"issues", "push", "workflow_run"}, map[string]string{"actions": "read"},
		},
	} {
		b, err := Manifest(c.routes, ManifestOptions{Name: "belay", URL: "https://belay.example", WebhookURL: "https://belay.example/webhook"})
		require.NoError(t, err, name)
		var got struct {
			Hook        map[string]any    `json:"hook_attributes"`
			Permissions map[string]string `json:"default_permissions"`
			Events      []string          `json:"default_events"`
			Public      *bool             `json:"public"`
		}
		require.NoError(t, json.Unmarshal(b, &got), name)
		want := map[string]string{}
		for _, m := range []map[string]string{base, c.more} {
			for k, v := range m {
				want[k] = v
			}
		}
		require.Equal(t, want, got.Permissions, name)
		require.ElementsMatch(t, c.events, got.Events, name)
		require.Equal(t, map[string]any{"url": "https://belay.example/webhook", "active": true}, got.Hook)
		require.False(t, *got.Public)
	}
	_, err := Manifest(Routes{Rules: []string{"moon_landing"}}, ManifestOptions{})
	require.ErrorContains(t, err, "moon_landing")
}

// TestTheManifestIsEnoughForAllRoles: an App made of it can make every token.
func TestTheManifestIsEnoughForAllRoles(t *testing.T) {
	t.Parallel()
	permissions, _, err := Needs(Routes{})
	require.NoError(t, err)
	k := newKit(t, func(o *githubtest.Options, _ *Options) { o.Permissions = permissions })
	for _, role := range Roles {
		_, err := k.client.Token(t.Context(), k.repo, role)
		require.NoError(t, err)
	}
	delete(permissions, "checks")
	few := newKit(t, func(o *githubtest.Options, _ *Options) { o.Permissions = permissions })
	_, err = few.client.Token(t.Context(), few.repo, Orchestration)
	require.ErrorIs(t, err, ErrValidation)
	require.ErrorContains(t, err, "not granted")
}
