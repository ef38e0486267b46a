package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// DT-99: the letter case of a repository's name is nobody's way around a scope.
func TestDT99RepoFilter(t *testing.T) {
	t.Parallel()
	for name, folded := range map[string]string{
		"acme/api": "acme/api", "Acme/API": "acme/api", "": "", "ACME/ÄPI": "acme/Äpi",
		"acme/\u212aey": "acme/\u212aey", // the Kelvin sign is no k
	} {
		require.Equal(t, folded, FoldRepo(name))
	}
	scope := []string{"Acme/Web", "acme/api", "acme/API"}
	for _, c := range []struct {
		scope []string
		asked string
		want  RepoFilter
	}{
		{nil, "", nil},
		{nil, "Acme/Api", RepoFilter{"acme/api"}},
		{scope, "", RepoFilter{"acme/api", "acme/web"}},
		{scope, "ACME/web", RepoFilter{"acme/web"}},
		{scope, "acme/other", RepoFilter{}},
		{[]string{}, "", RepoFilter{}},
		{[]string{}, "acme/api", RepoFilter{}},
	} {
		f := NewRepoFilter(c.scope, c.asked)
		require.Equal(t, c.want, f, "%v %q", c.scope, c.asked)
		for _, name := range []string{"acme/api", "ACME/API", "acme/web", "acme/other", ""} {
			want := c.want == nil
			for _, in := range c.want {
				want = want || in == FoldRepo(name)
			}
			require.Equal(t, want, f.Has(name), "%v has %q", f, name)
		}
	}
}
