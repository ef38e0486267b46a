package ingest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxParameter = 1024
)

// listQuery is what the parameters of a list ask for.
type listQuery struct {
	limit        int
	cursor       string
	repo         string
	status       string
	installation *int64
}

func badParameter(name, want string) error {
	return &textError{kind: errParameter, text: "parameter " + name + " must be " + want}
}

// parseList reads the parameters of a list whose items have one of the
// statuses. An empty one counts as absent.
func parseList(r *http.Request, statuses []string) (listQuery, error) {
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
	if q.status = v.Get("status"); q.status != "" && !slices.Contains(statuses, q.status) {
		return q, badParameter("status", "one of "+strings.Join(statuses, ", "))
	}
	q.cursor, q.repo = v.Get("cursor"), v.Get("repo")
	return q, nil
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
