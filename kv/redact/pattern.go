package redact

import "strings"

// kind is the character class a pattern's run goes on with.
type kind int

const (
	kindToken    kind = iota // a GitHub token
	kindUserinfo             // the userinfo of a URL
	kindBase64               // the value of an Authorization header
	kinds
)

// pattern is a secret by its shape: the prefix and at least least bytes of
// the kind's class; it reaches as far as the class does.
type pattern struct {
	prefix string
	least  int
	kind   kind
}

// tokenLeast is how many token characters make a GitHub token of a prefix.
const tokenLeast = 20

var patterns = []pattern{
	{"ghs_", tokenLeast, kindToken},
	{"ghp_", tokenLeast, kindToken},
	{"gho_", tokenLeast, kindToken},
	{"ghu_", tokenLeast, kindToken},
	{"ghr_", tokenLeast, kindToken},
	{"github_pat_", tokenLeast, kindToken},
	{"x-access-token:", 1, kindUserinfo},
	{"eC1hY2Nlc3MtdG9rZW46", 1, kindBase64}, // base64 of x-access-token:
}

// patternsAt lists the patterns by their first byte.
var patternsAt = func() (at [256][]pattern) {
	for _, p := range patterns {
		at[p.prefix[0]] = append(at[p.prefix[0]], p)
	}
	return at
}()

var patternStarts = func() (start [256]bool) {
	for _, p := range patterns {
		start[p.prefix[0]] = true
	}
	return start
}()

// classes says for each kind which bytes go on.
var classes = func() (c [kinds][256]bool) {
	const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for k, set := range [kinds]string{
		kindToken:    alnum + "_",
		kindUserinfo: alnum + "-._~%+=:!$&*",
		kindBase64:   alnum + "+/=-_",
	} {
		for i := range len(set) {
			c[k][set[i]] = true
		}
	}
	return c
}()

// match reports whether b starts with the pattern; wait means that more text
// may decide otherwise.
func (p *pattern) match(b []byte, final bool) (ok, wait bool) {
	if len(b) < len(p.prefix) {
		return false, !final && strings.HasPrefix(p.prefix, string(b))
	}
	if string(b[:len(p.prefix)]) != p.prefix {
		return false, false
	}
	rest := b[len(p.prefix):]
	for i := range min(len(rest), p.least) {
		if !classes[p.kind][rest[i]] {
			return false, false
		}
	}
	if len(rest) < p.least {
		return false, !final
	}
	return true, false
}

// goesOn reports whether a run of the kind covers b[0]. Inside a token a dot
// or dash counts if a token character follows: tokens that carry a JWT have
// them, and the end of a sentence is no token.
func (k kind) goesOn(b []byte, final bool) (ok, wait bool) {
	if classes[k][b[0]] {
		return true, false
	}
	if k != kindToken || b[0] != '.' && b[0] != '-' {
		return false, false
	}
	if len(b) == 1 {
		return false, !final
	}
	return classes[k][b[1]], false
}
