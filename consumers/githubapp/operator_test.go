package githubapp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/redact"
)

// TestOT94OnlyAnAuthenticMarkerIsEvidence: a marker that is altered anywhere,
// planted, of another repository or another key proves nothing.
func TestOT94OnlyAnAuthenticMarkerIsEvidence(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	m := OperatorMark{Tenant: "invotek", RequestID: "b5f7f7a0-0000-4000-8000-000000000001", AttemptID: "a1"}
	line := k.client.OperatorMarker(100, m)
	for _, body := range []string{line, line + "\n\nDo it.", line + "\r\n\r\nDo it."} {
		got, ok := k.client.OperatorMark(100, body)
		require.True(t, ok, body)
		require.Equal(t, m, got)
	}
	_, ok := k.client.OperatorMark(101, line)
	require.False(t, ok, "of another repository")
	for _, body := range []string{"", "Do it.\n" + line, " " + line, line + " more", strings.Replace(line, "a1", "a2", 1),
		strings.Replace(line, "invotek", "other", 1), strings.Replace(line, " -->", "0 -->", 1), operatorOpen + "-->", operatorOpen,
		operatorOpen + "invotek " + m.RequestID + " a1 " + strings.Repeat("0", 64) + " -->"} {
		_, ok := k.client.OperatorMark(100, body)
		require.False(t, ok, body)
	}
	for i := range line { // every byte counts
		b := []byte(line)
		b[i] ^= 1
		_, ok := k.client.OperatorMark(100, string(b))
		require.False(t, ok, "byte %d", i)
	}
	rotated := k.another(t, Options{
		AppID: k.AppID(), PrivateKey: k.PrivateKey(), APIURL: k.URL(), MarkerSecrets: []redact.Secret{"new", "old"},
	})
	_, ok = rotated.OperatorMark(100, line)
	require.False(t, ok, "of another key")
	old := k.another(t, Options{AppID: k.AppID(), PrivateKey: k.PrivateKey(), APIURL: k.URL(), MarkerSecrets: []redact.Secret{"old"}})
	_, ok = rotated.OperatorMark(100, old.OperatorMarker(100, m))
	require.True(t, ok, "a key that is rotated out still counts")
	require.NotEqual(t, old.OperatorMarker(100, m), rotated.OperatorMarker(100, m))
}

// TestTheInstallationOfARepositoryIsAskedForOnce and forgotten after a while.
func TestTheInstallationOfARepositoryIsAskedForOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for range 3 {
		got, err := k.client.InstallationOf(t.Context(), "acme/api")
		require.NoError(t, err)
		require.Equal(t, k.repo, got)
	}
	require.Equal(t, 1, k.Requests(githubtest.OpInstallation))
	require.Equal(t, map[string]string{"metadata": "read"}, k.Grants()[0].Permissions)
	k.clock.Advance(time.Hour)
	_, err := k.client.InstallationOf(t.Context(), "acme/api")
	require.NoError(t, err)
	require.Equal(t, 2, k.Requests(githubtest.OpInstallation))
	_, err = k.client.InstallationOf(t.Context(), "acme/none")
	require.ErrorIs(t, err, ErrNotFound)
	for _, name := range []string{"", "acme", "acme/..", "a/b/c", "acme/api?x"} {
		_, err = k.client.InstallationOf(t.Context(), name)
		require.ErrorIs(t, err, ErrValidation, name)
	}
}

// TestO16ALimitSaysWhetherAnythingWasSent: the one that was run into has a
// status, the ones that it parks have none.
func TestO16ALimitSaysWhetherAnythingWasSent(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.Fail(githubtest.Fault{Op: githubtest.OpCreateIssue, Kind: githubtest.SecondaryLimit})
	for _, status := range []int{403, 0} {
		_, err := k.client.CreateIssue(t.Context(), k.repo, "Do it", "now")
		var limit *RateLimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, status, limit.Status)
	}
	require.Equal(t, 1, k.Requests(githubtest.OpCreateIssue))
}
