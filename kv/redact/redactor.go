package redact

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Marker stands in the text where a secret was.
const Marker = "[redacted-token]"

// MinLive is the length in bytes from which a live value counts: shorter
// ones would blank out ordinary text.
const MinLive = 4

// Redactor knows the live values of one scope, a run or a process. It is
// safe for concurrent use.
type Redactor struct {
	mu     sync.Mutex // serialises Add
	values atomic.Pointer[values]
}

// New returns a Redactor that knows the given live values.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	r.values.Store(&values{start: patternStarts})
	for _, s := range secrets {
		r.Add(s)
	}
	return r
}

// Add makes a live value known, for writers that are open already too.
// Values shorter than MinLive are ignored.
func (r *Redactor) Add(secret string) {
	if len(secret) < MinLive {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.values.Load()
	next := *old
	for _, v := range spellings(secret) {
		next.add(v)
	}
	r.values.Store(&next)
}

// Contains reports whether text contains a live value.
func (r *Redactor) Contains(text string) bool {
	for _, vs := range r.values.Load().live {
		for _, v := range vs {
			if strings.Contains(text, v) {
				return true
			}
		}
	}
	return false
}

// String returns s with each secret replaced by Marker.
func (r *Redactor) String(s string) string {
	var sc scanner
	out, _ := sc.scan(r.values.Load(), nil, []byte(s), true)
	if !sc.found {
		return s
	}
	return string(out)
}

// values is an immutable set of live values.
type values struct {
	live  [256][]string // by first byte, longest first
	start [256]bool     // bytes a live value or a pattern can start with
}

func (v *values) add(s string) {
	c := s[0]
	if slices.Contains(v.live[c], s) {
		return
	}
	list := append(slices.Clone(v.live[c]), s)
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	v.live[c], v.start[c] = list, true
}

// longest returns the length of the longest live value that b starts with.
// wait means that more text may decide otherwise.
func (v *values) longest(b []byte, final bool) (n int, wait bool) {
	for _, s := range v.live[b[0]] {
		switch {
		case len(s) > len(b):
			if !final && s[:len(b)] == string(b) {
				return 0, true
			}
		case s == string(b[:len(s)]):
			return len(s), false
		}
	}
	return 0, false
}

// spellings returns a value as it stands, as JSON writes it, with and without
// the escapes for HTML, and as URLs do.
func spellings(s string) []string {
	out := []string{s, url.QueryEscape(s), url.PathEscape(s)}
	for _, html := range []bool{false, true} {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		if err := enc.Encode(s); err == nil {
			q := strings.TrimSuffix(b.String(), "\n")
			out = append(out, q[1:len(q)-1])
		}
	}
	return out
}
