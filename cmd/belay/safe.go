package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safe makes text of others fit for one line of a terminal: what would move
// the cursor, change colours, reverse the direction or hide is written as an
// escape instead (G09).
func safe(s string) string { return escape(s, func(rune) bool { return false }) }

// safeText is safe for text of several lines: line ends and tabs stay.
func safeText(s string) string {
	return escape(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

func escape(s string, keep func(rune) bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case keep(r) || visible(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// visible reports whether a rune shows, and shows as itself. Joiners and
// variation selectors are part of written words and emoji.
func visible(r rune) bool {
	const zwnj, zwj = '\u200c', '\u200d'
	return unicode.IsGraphic(r) && r != '\u2028' && r != '\u2029' || r == zwnj || r == zwj
}
