package github

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Verb is a maintainer's command. VerbUnknown stands for any other word, which is
// never kept.
type Verb string

// The verbs (REQUIREMENTS §Routing).
const (
	VerbReview  Verb = "review"
	VerbDeepen  Verb = "deepen"
	VerbFix     Verb = "fix"
	VerbRetry   Verb = "retry"
	VerbCancel  Verb = "cancel"
	VerbStatus  Verb = "status"
	VerbUnknown Verb = "unknown"
)

// Verbs lists the verbs that people may use.
var Verbs = []Verb{VerbReview, VerbDeepen, VerbFix, VerbRetry, VerbCancel, VerbStatus}

// ParseCommand reads the command in a comment: the familiar's mention as the
// very first token, then a verb. A mention elsewhere, or a bare one, is none.
//
//	comment = [space] "@" handle boundary [space] verb [":"] [ space text ]
//
// The handle is bot_username without `[bot]`, compared as logins are; the
// boundary is anything but a letter, a digit, `-`, `_` and `/`.
func ParseCommand(familiars []Familiar, comment string) (*Familiar, Verb, bool) {
	mention, ok := strings.CutPrefix(strings.TrimLeftFunc(comment, unicode.IsSpace), "@")
	if !ok {
		return nil, "", false
	}
	for i := range familiars {
		rest, ok := cutHandle(mention, familiars[i].handle())
		if !ok {
			continue
		}
		verb, ok := parseVerb(rest)
		return &familiars[i], verb, ok
	}
	return nil, "", false
}

// cutHandle takes the handle off the front if it stands there whole.
func cutHandle(s, handle string) (rest string, ok bool) {
	if handle == "" || len(s) < len(handle) || !sameLogin(s[:len(handle)], handle) {
		return "", false
	}
	rest = s[len(handle):]
	r, _ := utf8.DecodeRuneInString(rest)
	return rest, !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '-' && r != '_' && r != '/'
}

func parseVerb(rest string) (Verb, bool) {
	word := strings.TrimLeftFunc(rest, unicode.IsSpace)
	if end := strings.IndexFunc(word, unicode.IsSpace); end >= 0 {
		word = word[:end]
	}
	word = strings.TrimRight(word, ":")
	if word == "" {
		return "", false
	}
	for _, v := range Verbs {
		if sameLogin(word, string(v)) {
			return v, true
		}
	}
	return VerbUnknown, true
}
