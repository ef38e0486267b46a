package task

import (
	"slices"
	"strings"
)

// FoldRepo is owner/name in the one spelling that repositories are compared
// in: GitHub tells no two apart by letter case. A name has ASCII letters only,
// so no others are folded.
func FoldRepo(name string) string {
	i := strings.IndexFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' })
	if i < 0 {
		return name
	}
	b := []byte(name)
	for ; i < len(b); i++ {
		if c := b[i]; c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// RepoFilter are the repositories that a query may show, folded and in order:
// nil for all of them, empty for none.
type RepoFilter []string

// NewRepoFilter is the caller's scope (nil: all) narrowed by the one that is
// asked for ("": none in particular). What is asked for never widens a scope.
func NewRepoFilter(scope []string, asked string) RepoFilter {
	if scope == nil && asked == "" {
		return nil
	}
	f := make(RepoFilter, 0, len(scope)+1)
	for _, name := range scope {
		f = append(f, FoldRepo(name))
	}
	slices.Sort(f)
	f = slices.Compact(f)
	switch {
	case asked == "":
		return f
	case scope == nil || f.Has(asked):
		return RepoFilter{FoldRepo(asked)}
	}
	return RepoFilter{}
}

// Has reports whether the filter lets a repository through.
func (f RepoFilter) Has(name string) bool {
	if f == nil {
		return true
	}
	_, found := slices.BinarySearch(f, FoldRepo(name))
	return found
}
