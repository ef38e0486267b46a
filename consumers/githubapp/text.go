package githubapp

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belay-run/belay/kv/task"
)

// gap is a zero width space: it parts what GitHub would act on, in code too.
const gap = "\u200b"

// safe makes Markdown of others harmless in a comment of ours: it calls
// nobody, closes nothing of the frame around it, hides and embeds nothing.
// Links, emphasis, lists and code stay.
func safe(s string) string {
	s = strings.Map(func(r rune) rune {
		if hidden(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	var b strings.Builder
	for i, r := range s {
		b.WriteRune(r)
		next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		switch {
		case r == '@' && (unicode.IsLetter(next) || unicode.IsDigit(next)), // mentions of people and teams
			r == '<' && (unicode.IsLetter(next) || strings.ContainsRune("!/?", next)), // HTML, comments
			r == '!' && next == '[', // images
			r == '&' && (next == '#' || strings.HasPrefix(s[i:], "&commat")): // any of these in disguise
			b.WriteString(gap)
		}
	}
	return closeFences(strings.TrimSpace(b.String()))
}

// hidden are control characters, and those that turn text around or show nothing.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0xfeff
}

// closeFences ends a code block that is still open at the end of a text.
func closeFences(s string) string {
	open := ""
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		fence := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		if fence == "" {
			fence = line[:len(line)-len(strings.TrimLeft(line, "~"))]
		}
		switch {
		case len(fence) < 3:
		case open == "":
			open = fence
		case fence[0] == open[0] && len(fence) >= len(open) && fence == line:
			open = ""
		}
	}
	if open == "" {
		return s
	}
	return s + "\n" + open
}

// block is a text of others made safe and cut to limit bytes.
func block(s string, limit int) string { return fit(safe(start(s, limit)), limit) }

// start drops what of a long text cannot be within limit bytes of its safe form.
func start(s string, limit int) string {
	end := 4 * (limit + 64)
	if len(s) <= end {
		return s
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// fit cuts a safe text to limit bytes and ends the code block it cuts through.
func fit(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	out := closeFences(cut(s, max(0, limit)))
	if over := len(out) - limit; over > 0 {
		out = closeFences(cut(s, max(0, limit-over)))
	}
	return out
}

// inline is a text of others within a line: no Markdown of it counts.
func inline(s string, limit int) string {
	s = oneLine(safe(start(s, limit)), limit)
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_[]()#|~>", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// code is a text of others as a code span.
func code(s string, limit int) string {
	s = oneLine(safe(start(s, limit)), limit)
	if s == "" {
		return ""
	}
	longest, run := 0, 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// oneLine makes a line of a text, of at most limit bytes.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	end := max(0, limit-len(dots))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// cut shortens a text to limit bytes and says so.
func cut(s string, limit int) string { return task.Cut(s, limit) }
