package githubapp

import (
	"fmt"
	"strings"
)

// count is a digest in a line, such as "3 findings: 1 high, 2 low".
func count(findings []Finding) string {
	switch len(findings) {
	case 0:
		return "no findings"
	case 1:
		return "1 finding: 1 " + level(findings[0])
	}
	var parts []string
	for _, s := range append(severities[:len(severities):len(severities)], other) {
		n := 0
		for _, f := range findings {
			if level(f) == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return fmt.Sprintf("%d findings: %s", len(findings), strings.Join(parts, ", "))
}

// other stands for a severity that is none.
const other = "other"

func level(f Finding) string {
	if place(f.Severity) < len(severities) {
		return f.Severity
	}
	return other
}

// text renders the review: counts, findings, tests and what limits it.
func (r *Review) text() string {
	shown, withheld := r.gate()
	parts := []string{"#### Review: " + count(shown)}
	if r.Evidence != EvidenceComplete {
		parts = append(parts, fmt.Sprintf("Evidence is %s: this is no verdict on the whole change.", code(string(r.Evidence), 32)))
	}
	if withheld > 0 {
		parts = append(parts, fmt.Sprintf("Left out, as nothing shows that the review read their files: %d.", withheld))
	}
	if len(shown) == 0 && r.NoFindingsReason != "" {
		parts = append(parts, block(r.NoFindingsReason, maxText))
	}
	parts = append(parts, list(shown), tests(r.Tests), limitations(r.Limitations))
	return para(append(parts, fmt.Sprintf("Files read: %d under review, %d beside them.", len(r.ReviewedFiles), len(r.SupportingFiles)))...)
}

func list(findings []Finding) string {
	var b strings.Builder
	for i, f := range findings {
		if i == maxShown {
			fmt.Fprintf(&b, "- … and %d more\n", len(findings)-maxShown)
			break
		}
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		fmt.Fprintf(&b, "- **%s** %s %s\n", level(f), code(at, 300), inline(f.Title, 300))
		b.WriteString(indent(block(f.Body, maxText)))
		if rec := block(f.Recommendation, maxText); rec != "" {
			b.WriteString("\n" + indent("Recommended: "+rec))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// indent puts a text below a list's entry.
func indent(s string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// maxLines bounds lists of little things.
const maxLines = 20

func tests(all []TestRun) string {
	var b strings.Builder
	for i, t := range all {
		if i == maxLines {
			fmt.Fprintf(&b, "- … and %d more\n", len(all)-maxLines)
			break
		}
		fmt.Fprintf(&b, "- %s: %s %s\n", code(t.Command, 200), inline(t.Status, 32), inline(t.Output, 300))
	}
	if b.Len() == 0 {
		return ""
	}
	return "Tests:\n\n" + strings.TrimRight(b.String(), "\n ")
}

func limitations(all []string) string {
	var b strings.Builder
	for _, l := range all[:min(len(all), maxLines)] {
		b.WriteString("- " + inline(l, 500) + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "Limitations:\n\n" + strings.TrimRight(b.String(), "\n")
}
