package githubapp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestO15O16AnIssueIsOnePostWhateverComesOfIt: a lost answer, a limit, a 401
// and a 5xx are each one request, and what happened is in the App's own issues.
func TestO15O16AnIssueIsOnePostWhateverComesOfIt(t *testing.T) {
	t.Parallel()
	for kind, c := range map[githubtest.FaultKind]struct {
		want  error
		there int
	}{
		githubtest.DropAfter:      {ErrUnknown, 1},
		githubtest.ErrorAfter:     {ErrUnknown, 1},
		githubtest.EmptyAfter:     {ErrUnknown, 1},
		githubtest.GarbageAfter:   {ErrUnknown, 1},
		githubtest.DropBefore:     {ErrUnknown, 0},
		githubtest.ErrorBefore:    {ErrUnknown, 0},
		githubtest.SecondaryLimit: {ErrRateLimited, 0},
		githubtest.Unauthorized:   {ErrUnauthorized, 0},
	} {
		k := newKit(t)
		k.Fail(githubtest.Fault{Op: githubtest.OpCreateIssue, Kind: kind})
		_, err := k.client.CreateIssue(t.Context(), k.repo, "Do it", "marker")
		require.ErrorIs(t, err, c.want, string(kind))
		require.Equal(t, 1, k.Requests(githubtest.OpCreateIssue), string(kind))
		k.clock.Advance(time.Hour)
		own, err := k.client.OwnIssues(t.Context(), k.repo, k.clock.Now().Add(-2*time.Hour))
		require.NoError(t, err)
		require.Len(t, own, c.there, string(kind))
	}
	k := newKit(t)
	got, err := k.client.CreateIssue(t.Context(), k.repo, "Do it", "marker")
	require.NoError(t, err)
	require.NotEmpty(t, got.URL)
	k.AddIssue(100, githubtest.Issue{Title: "Do it", Body: "marker", Login: "mallory"})
	own, err := k.client.OwnIssues(t.Context(), k.repo, time.Time{})
	require.NoError(t, err)
	require.Equal(t, []Issue{got}, own, "another's issue is no evidence")
}

// TestDeliveriesArePagedAndAskedForAgain over more than a page.
func TestDeliveriesArePagedAndAskedForAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for i := range 250 {
		k.AddDelivery(githubtest.Delivery{GUID: fmt.Sprint("g", i), Event: "issues", StatusCode: 502, InstallationID: 10})
	}
	var all []HookDelivery
	for cursor := ""; ; {
		page, next, err := k.client.HookDeliveries(t.Context(), cursor)
		require.NoError(t, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	require.Len(t, all, 250)
	require.Equal(t, "g249", all[0].GUID)
	require.Equal(t, 502, all[0].StatusCode)
	require.NoError(t, k.client.Redeliver(t.Context(), all[0].ID))
	page, _, err := k.client.HookDeliveries(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, "g249", page[0].GUID)
	require.True(t, page[0].Redelivery)
	require.ErrorIs(t, k.client.Redeliver(t.Context(), 1), ErrNotFound)
}
