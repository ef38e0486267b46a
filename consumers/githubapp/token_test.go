package githubapp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/redact"
)

// TestRolesGetTheirPermissionsAndNoMore is REQUIREMENTS §Contract, as the
// tokens that GitHub gave out show it.
func TestRolesGetTheirPermissionsAndNoMore(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	want := map[Role]map[string]string{
		Orchestration: {"contents": "read", "checks": "write", "issues": "write", "pull_requests": "read", "metadata": "read"},
		Agent:         {"contents": "write", "metadata": "read"},
		Publication:   {"contents": "read", "issues": "write", "pull_requests": "write", "metadata": "read"},
	}
	for i, role := range Roles {
		_, err := k.client.Token(t.Context(), k.repo, role)
		require.NoError(t, err)
		got := k.Grants()[i]
		require.Equal(t, want[role], got.Permissions)
		require.Equal(t, []int64{100}, got.Repositories)
		require.Equal(t, int64(10), got.Installation)
	}
	_, err := k.client.Token(t.Context(), k.repo, "admin")
	require.Error(t, err)
	noID := k.repo
	noID.ID = 0
	_, err = k.client.Token(t.Context(), noID, Agent)
	require.Error(t, err, "a token is scoped to a repository or not made")
	require.Len(t, k.Grants(), len(Roles))
}

// TestTokensAreCachedAndRenewedInTime keeps at least five minutes.
func TestTokensAreCachedAndRenewedInTime(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	get := func(need time.Duration) Token {
		got, err := k.client.TokenFor(t.Context(), k.repo, Agent, need)
		require.NoError(t, err)
		return got
	}
	first := get(0)
	k.clock.Advance(55 * time.Minute)
	require.Equal(t, first, get(0), "five minutes are left")
	k.clock.Advance(time.Second)
	second := get(0)
	require.NotEqual(t, first, second)
	k.clock.Advance(30 * time.Minute)
	require.Equal(t, second, get(30*time.Minute))
	third := get(31 * time.Minute)
	require.NotEqual(t, second, third)
	require.Equal(t, third, get(24*time.Hour), "no token has more than its hour")
	require.Len(t, k.Grants(), 3)
}

// TestOneTokenIsMintedForAll lets many want one at once.
func TestOneTokenIsMintedForAll(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := k.client.Token(t.Context(), k.repo, Agent); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, k.Grants(), 1)
}

// TestG41A401MintsOnceAndThenIsTransient: a token that GitHub forgot is
// replaced once within a call; a second refusal is for the next attempt.
func TestG41A401MintsOnceAndThenIsTransient(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	_, err := k.client.BranchHead(t.Context(), k.repo, "main")
	require.NoError(t, err)
	k.RevokeTokens()
	_, err = k.client.BranchHead(t.Context(), k.repo, "main")
	require.NoError(t, err)
	require.Len(t, k.Grants(), 2)

	k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: githubtest.Unauthorized, Times: -1})
	n := k.Requests(githubtest.OpRef)
	_, err = k.client.BranchHead(t.Context(), k.repo, "main")
	require.ErrorIs(t, err, ErrUnauthorized)
	require.ErrorIs(t, err, ErrTransient)
	require.Equal(t, n+2, k.Requests(githubtest.OpRef))
	require.Len(t, k.Grants(), 3, "one more, not one for each try")
}

// TestG41AnExpiredTokenIsNeverSent moves the clock past the hour.
func TestG41AnExpiredTokenIsNeverSent(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for range 3 {
		_, err := k.client.BranchHead(t.Context(), k.repo, "main")
		require.NoError(t, err)
		k.clock.Advance(75 * time.Minute)
	}
	require.Equal(t, 3, k.Requests(githubtest.OpRef), "no request met a 401")
	require.Len(t, k.Grants(), 3)
}

// TestAWrongKeyIsUnauthorized is not for another try.
func TestAWrongKeyIsUnauthorized(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *githubtest.Options, _ *Options) {
		o.JWTNow = func() time.Time { return time.Now().Add(-time.Hour) }
	})
	_, err := k.client.Token(t.Context(), k.repo, Agent)
	require.ErrorIs(t, err, ErrUnauthorized)
	require.NotErrorIs(t, err, ErrTransient)
}

// TestX06NothingPrintsASecret looks for tokens, JWTs and the key in all that
// a client writes: logs at debug, errors, and itself.
func TestX06NothingPrintsASecret(t *testing.T) {
	t.Parallel()
	var issued []string
	k := newKit(t, func(_ *githubtest.Options, o *Options) {
		o.Issued = func(s redact.Secret) { issued = append(issued, s.Reveal()) }
	})
	var out strings.Builder
	say := func(v any) {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		fmt.Fprintf(&out, "%v %+v %#v %s\n", v, v, v, b)
	}
	tok, err := k.client.Token(t.Context(), k.repo, Agent)
	require.NoError(t, err)
	say(tok)
	for _, f := range []githubtest.FaultKind{
		githubtest.Unauthorized, githubtest.DropAfter, githubtest.ErrorAfter, githubtest.GarbageAfter, githubtest.SecondaryLimit,
	} {
		k.Fail(githubtest.Fault{Op: githubtest.OpRef, Kind: f, Times: -1})
		_, err := k.client.BranchHead(t.Context(), k.repo, "main")
		require.Error(t, err)
		say(err.Error())
		fmt.Fprintf(&out, "%+v %#v\n", err, err)
		k.Heal()
	}
	k.clock.Advance(time.Hour)
	k.Fail(githubtest.Fault{Op: githubtest.OpToken, Kind: githubtest.Unauthorized})
	_, err = k.client.Token(t.Context(), k.repo, Publication)
	fmt.Fprintf(&out, "%+v %#v\n", err, err)
	out.WriteString(k.logs.String())
	require.Contains(t, out.String(), "secondary", "control: there is a log")
	require.NotEmpty(t, k.TokenValues())
	require.ElementsMatch(t, k.TokenValues(), issued, "each token was made known for redaction")
	for _, secret := range append(k.TokenValues(), "eyJ", "PRIVATE KEY", "Bearer ") {
		require.NotContains(t, out.String(), secret)
	}
}

// TestCredentialsStayWithTheirHost redirects to another host.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	asked := 0
	g := &guard{scheme: "https", host: "api.example", next: roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}
	for _, url := range []string{"https://evil.example/x", "http://api.example/x", "https://api.example:444/x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		_, err = bearer{g}.RoundTrip(req)
		require.Error(t, err)
	}
	require.Zero(t, asked)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/x", nil)
	require.NoError(t, err)
	_, err = bearer{g}.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 1, asked)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
