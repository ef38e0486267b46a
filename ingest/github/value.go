package github

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/belay-run/belay/kv/task"
)

// maxName is the longest name that is kept, in bytes; a longer one is absent,
// since half a name would be another name.
const maxName = 1024

// key returns an object's key, decoded. It may alias the body: compare it,
// do not keep it.
func key(raw []byte, escaped bool) []byte {
	if escaped {
		return []byte(unquote(raw, maxName))
	}
	return raw
}

// name reads a string that passes ok; anything else leaves dst absent.
func (s *scanner) name(dst *string, ok func(string) bool) error {
	*dst = ""
	if s.next() != '"' {
		return s.skip()
	}
	raw, _, err := s.quoted()
	if err != nil || len(raw) > 6*maxName {
		return err
	}
	if v := unquote(raw, maxName); len(v) <= maxName && ok(v) {
		*dst = v
	}
	return nil
}

// text reads free text, cut to task.MaxText.
func (s *scanner) text(dst *string) error {
	*dst = ""
	if s.next() != '"' {
		return s.skip()
	}
	raw, _, err := s.quoted()
	if err != nil {
		return err
	}
	*dst = task.Cut(unquote(raw, task.MaxText), task.MaxText)
	return nil
}

// maxLine is the longest line that is kept of a text, in bytes.
const maxLine = 200

// line reads the first line of free text.
func (s *scanner) line(dst *string) error {
	*dst = ""
	if s.next() != '"' {
		return s.skip()
	}
	raw, _, err := s.quoted()
	if err == nil {
		*dst = firstLine(unquote(raw, maxLine))
	}
	return err
}

// firstLine is the first line of a text, cut to maxLine.
func firstLine(s string) string {
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		s = s[:i]
	}
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "")
	}
	return s
}

// id reads a positive integer; numbers with a fraction, an exponent or more
// than 63 bits are absent.
func (s *scanner) id(dst *int64) error {
	*dst = 0
	if c := s.next(); c < '0' || c > '9' {
		return s.skip()
	}
	start := s.i
	if err := s.number(); err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(s.b[start:s.i]), 10, 64); err == nil {
		*dst = n
	}
	return nil
}

// ordinal reads the number of an issue or pull request.
func (s *scanner) ordinal(dst *int) error {
	var n int64
	err := s.id(&n)
	*dst = 0
	if n <= 1<<31-1 {
		*dst = int(n)
	}
	return err
}

// flag reads a boolean.
func (s *scanner) flag(dst *bool) error {
	*dst = s.next() == 't'
	return s.skip()
}

// instant reads an RFC 3339 time, or seconds since 1970 as push events have them.
func (s *scanner) instant(dst *time.Time) error {
	*dst = time.Time{}
	if s.next() != '"' {
		var unix int64
		err := s.id(&unix)
		if unix > 0 && unix < 1<<38 {
			*dst = time.Unix(unix, 0).UTC()
		}
		return err
	}
	var v string
	err := s.name(&v, isPlain)
	if t, parseErr := time.Parse(time.RFC3339, v); parseErr == nil {
		*dst = t.UTC()
	}
	return err
}

// unquote decodes the inside of a string whose syntax was checked, as
// encoding/json does: what is not UTF-8, and half a surrogate pair, become
// U+FFFD. It stops once it has more than limit bytes, so a huge string costs
// no more than a large one.
func unquote(raw []byte, limit int) string {
	var b strings.Builder
	b.Grow(min(len(raw), limit+utf8.UTFMax))
	for len(raw) > 0 && b.Len() <= limit {
		if raw[0] == '\\' {
			r, n := unescape(raw)
			b.WriteRune(r)
			raw = raw[n:]
			continue
		}
		if c := raw[0]; c < utf8.RuneSelf {
			b.WriteByte(c)
			raw = raw[1:]
			continue
		}
		r, n := utf8.DecodeRune(raw)
		b.WriteRune(r)
		raw = raw[n:]
	}
	return b.String()
}

// unescape decodes the escape that raw begins with and returns its length.
func unescape(raw []byte) (r rune, n int) {
	switch raw[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r = hex4(raw[2:6])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(raw[8:12])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(raw[1]), 2
}

func hex4(b []byte) rune {
	return hexDigit(b[0])<<12 | hexDigit(b[1])<<8 | hexDigit(b[2])<<4 | hexDigit(b[3])
}
