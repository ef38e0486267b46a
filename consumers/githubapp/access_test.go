package githubapp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestWhoMayCommand is the write gate's table: admin, maintain and write.
func TestWhoMayCommand(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for role, want := range map[string]struct {
		permission string
		may        bool
	}{
		"admin": {"admin", true}, "maintain": {"maintain", true}, "write": {"write", true},
		"triage": {"triage", false}, "read": {"read", false}, "none": {"none", false},
		"releaser:write": {"write", true}, "watcher:read": {"read", false}, "maintain-docs:read": {"read", false},
	} {
		k.SetRole(100, "Alice", role)
		p, err := k.client.Permission(t.Context(), k.repo, "alice")
		require.NoError(t, err)
		require.Equal(t, want.permission, p, role)
		may, err := k.client.CanWrite(t.Context(), k.repo, "alice")
		require.NoError(t, err)
		require.Equal(t, want.may, may, role)
	}
	n := k.Requests(githubtest.OpPermission)
	for _, login := range []string{"", ".", "..", "a/b", "a?b", "../../x", "a b"} {
		may, err := k.client.CanWrite(t.Context(), k.repo, login)
		require.NoError(t, err)
		require.False(t, may)
	}
	require.Equal(t, n, k.Requests(githubtest.OpPermission), "nothing but a login gets into a path")
	may, err := k.client.CanWrite(t.Context(), k.repo, "stranger")
	require.NoError(t, err)
	require.False(t, may)
	k.Fail(githubtest.Fault{Op: githubtest.OpPermission, Kind: githubtest.ErrorBefore, Times: -1})
	may, err = k.client.CanWrite(t.Context(), k.repo, "alice")
	require.ErrorIs(t, err, ErrTransient)
	require.False(t, may, "not known is no")
	k.Heal()
	k.Fail(githubtest.Fault{Op: githubtest.OpPermission, Kind: githubtest.EmptyAfter})
	_, err = k.client.CanWrite(t.Context(), k.repo, "alice")
	require.ErrorIs(t, err, ErrTransient)
}

// TestFilesOfAPullAreReadToGitHubsEnd pages and stops.
func TestFilesOfAPullAreReadToGitHubsEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, n := range []int{0, 1, 100, 250, 3000, 4000} {
		files := make([]string, n)
		for i := range files {
			files[i] = fmt.Sprintf("f%d.go", i)
		}
		pr := k.AddPull(100, githubtest.Pull{Branch: fmt.Sprint("b", n), HeadSHA: githubtest.SHA(fmt.Sprint(n)), Files: files})
		got, more, err := k.client.PullFiles(t.Context(), k.repo, pr)
		require.NoError(t, err)
		require.Len(t, got, min(n, 3000))
		require.Equal(t, n >= 3000, more)
	}
}

// TestBranches have heads, and names with slashes.
func TestBranches(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.SetBranch(100, "feat/a b", githubtest.SHA("x"))
	sha, err := k.client.BranchHead(t.Context(), k.repo, "feat/a b")
	require.NoError(t, err)
	require.Equal(t, githubtest.SHA("x"), sha)
	sha, err = k.client.BranchHead(t.Context(), k.repo, "")
	require.NoError(t, err)
	require.Equal(t, k.head(), sha)
	_, err = k.client.BranchHead(t.Context(), k.repo, "gone")
	require.ErrorIs(t, err, ErrNotFound)
}

// TestPullsAreFoundByTheirBranch: the repository's own, an open one first.
func TestPullsAreFoundByTheirBranch(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.AddPull(100, githubtest.Pull{Number: 20, Branch: "fix", HeadSHA: githubtest.SHA("a"), Owner: "fork"})
	got, err := k.client.FindPull(t.Context(), k.repo, "fix")
	require.NoError(t, err)
	require.Nil(t, got, "a fork's branch of that name is another one")
	k.AddPull(100, githubtest.Pull{Number: 21, Branch: "fix", HeadSHA: githubtest.SHA("a")})
	k.ClosePull(100, 21)
	p, created, err := k.client.EnsurePull(t.Context(), k.repo, PullSpec{Branch: "fix", Title: "Fix"})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, 21, p.Number, "a closed one is not opened anew")
	k.AddPull(100, githubtest.Pull{Number: 22, Branch: "fix", HeadSHA: githubtest.SHA("a")})
	k.AddPull(100, githubtest.Pull{Number: 23, Branch: "fix", HeadSHA: githubtest.SHA("a"), State: "closed"})
	got, err = k.client.FindPull(t.Context(), k.repo, "fix")
	require.NoError(t, err)
	require.Equal(t, 22, got.Number)
}

// TestDraftsAreADraftWhereTheyCanBe and ordinary where not.
func TestDraftsAreADraftWhereTheyCanBe(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		k := newKit(t)
		k.AddRepo(10, githubtest.Repo{ID: 101, Owner: "acme", Name: "web", NoDrafts: refused})
		k.SetBranch(101, "fix", githubtest.SHA("fix"))
		repo := Repo{Installation: 10, ID: 101, Owner: "acme", Name: "web"}
		p, created, err := k.client.EnsurePull(t.Context(), repo, PullSpec{Branch: "fix", Title: "Fix"})
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, !refused, p.Draft)
		require.Len(t, k.Pulls(101), 1)
		_, _, err = k.client.EnsurePull(t.Context(), repo, PullSpec{Branch: "gone", Title: "Fix"})
		require.ErrorIs(t, err, ErrValidation)
	}
}

// TestADuplicatePullThatWasNotSeenIsFound: the list is late, the creation is
// refused, the second look finds it.
func TestADuplicatePullThatWasNotSeenIsFound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.SetBranch(100, "fix", githubtest.SHA("fix"))
	held, looked := make(chan struct{}), make(chan struct{})
	k.Fail(githubtest.Fault{Op: githubtest.OpListPulls, Kind: githubtest.Hold, Until: looked, Held: func() { close(held) }})
	done := make(chan error, 1)
	go func() {
		p, _, err := k.client.EnsurePull(t.Context(), k.repo, PullSpec{Branch: "fix", Base: "main", Title: "Fix"})
		if err == nil && p.Number != 30 {
			err = fmt.Errorf("found %d", p.Number)
		}
		done <- err
	}()
	<-held
	k.AddPull(100, githubtest.Pull{Number: 30, Branch: "fix", HeadSHA: githubtest.SHA("fix")})
	close(looked)
	require.NoError(t, <-done)
	require.Zero(t, k.Count(githubtest.OpCreatePull))
	require.Equal(t, 1, k.Requests(githubtest.OpCreatePull))
}
