package ingest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/belay-run/belay/kv/task"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxParameter = 1024
	// sealBytes is a multiple of 3, so that its text needs no padding.
	sealBytes = 9
)

// listQuery is what the parameters of a list ask for.
type listQuery struct {
	limit        int
	cursor       string
	repo         string
	status       string
	installation *int64
	seal         string
}

func badParameter(name, want string) error {
	return &textError{kind: errParameter, text: "parameter " + name + " must be " + want}
}

// parseList reads the parameters of a list whose items have one of the
// statuses, as a caller with a scope asks for it. An empty one counts as absent.
func parseList(r *http.Request, sc Scope, statuses []string) (listQuery, error) {
	q := listQuery{limit: defaultLimit}
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, &textError{kind: errParameter, text: "query cannot be parsed"}
	}
	for name, values := range v {
		if len(values) > 1 {
			return q, badParameter(strconv.QuoteToASCII(name[:min(len(name), 40)]), "given once")
		}
		if len(values[0]) > maxParameter {
			return q, badParameter(strconv.QuoteToASCII(name[:min(len(name), 40)]), fmt.Sprintf("at most %d bytes", maxParameter))
		}
	}
	if s := v.Get("limit"); s != "" {
		if q.limit, err = strconv.Atoi(s); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, badParameter("limit", fmt.Sprintf("a number from 1 to %d", maxLimit))
		}
	}
	if s := v.Get("installation"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return q, badParameter("installation", "the number of an installation")
		}
		q.installation = &n
	}
	if q.status = v.Get("status"); q.status != "" && statuses == nil {
		return q, badParameter("status", "left out: this list has none")
	}
	if q.status != "" && !slices.Contains(statuses, q.status) {
		return q, badParameter("status", "one of "+strings.Join(statuses, ", "))
	}
	q.seal, q.repo = sealOf(r.URL.Path, v, sc), v.Get("repo")
	if sealed := v.Get("cursor"); sealed != "" {
		inner, ok := strings.CutPrefix(sealed, q.seal)
		if q.cursor = inner; !ok || inner == "" {
			return q, errForeignCursor
		}
	}
	return q, nil
}

// sealOf begins the cursors that a tenant gets. It stands for the list, its
// filters and the tenant's scope, so that none is of use to another tenant.
// Who sees all has cursors without.
func sealOf(path string, v url.Values, sc Scope) string {
	if sc.Installation == nil && sc.Repos == nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %q", path, sc.installation(), task.NewRepoFilter(sc.Repos, ""))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if name != "limit" && name != "cursor" && v.Get(name) != "" {
			fmt.Fprintf(h, " %q=%q", name, v.Get(name))
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:sealBytes])
}

// next is the cursor that the answer carries, "" at the end.
func (q *listQuery) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	return q.seal + cursor
}

// within narrows a caller's installation by the one asked for. false means
// that nothing can match: the caller does not see the one asked for.
func (q *listQuery) within(sc Scope) (installation *int64, ok bool) {
	if q.installation == nil {
		return sc.Installation, true
	}
	if sc.Installation != nil && *sc.Installation != *q.installation {
		return nil, false
	}
	return q.installation, true
}
