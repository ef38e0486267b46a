package github

import (
	"strings"
	"unicode"
)

// isPlain accepts names without control characters: actions, labels, branches.
func isPlain(s string) bool { return s != "" && !strings.ContainsFunc(s, unicode.IsControl) }

// isLogin accepts GitHub's logins, with the brackets of `name[bot]`.
func isLogin(s string) bool { return madeOf(s, "-_[]") }

// isRepo accepts `owner/name`.
func isRepo(s string) bool {
	owner, name, ok := strings.Cut(s, "/")
	return ok && madeOf(owner, "-_.") && madeOf(name, "-_.") && name != "." && name != ".."
}

// isSHA accepts a commit's id of SHA-1 or SHA-256.
func isSHA(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if hexDigit(s[i]) < 0 {
			return false
		}
	}
	return true
}

// isURL accepts web addresses, the only ones that GitHub gives for cloning.
func isURL(s string) bool {
	web := strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
	return web && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// isID accepts the decimal ids that GitHub puts into headers.
func isID(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

// madeOf reports whether s is not empty and has only alphanumeric ASCII and
// the other bytes.
func madeOf(s, others string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

// sameLogin compares logins as GitHub does, without case. Of equal length in
// bytes, ASCII folds onto ASCII only, so no look-alike gets through (the
// Kelvin sign for k).
func sameLogin(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

const botSuffix = "[bot]"

// cutBot takes the mark of an App's account off a login.
func cutBot(login string) (name string, bot bool) {
	if n := len(login) - len(botSuffix); n >= 0 && sameLogin(login[n:], botSuffix) {
		return login[:n], true
	}
	return login, false
}
