package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Severity tells what keeps belay from working from what is only doubtful.
type Severity string

// The severities.
const (
	// Error keeps belay from starting or from doing its work.
	Error Severity = "error"
	// Warning lets it work, less safely than it could.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong or doubtful.
type Finding struct {
	// Check is the name of the check that found it, one of Checks.
	Check string `json:"check"`
	// Field is the key of the configuration, such as "storage.dir".
	Field    string   `json:"field"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Next is what to do.
	Next string `json:"next"`
}

// Findings are all there are, in the order of the configuration's sections.
type Findings []Finding

// Count returns how many have a severity.
func (fs Findings) Count(s Severity) int {
	n := 0
	for _, f := range fs {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// ExitCode is 1 if there is an error among them, else 0.
func (fs Findings) ExitCode() int {
	if fs.Count(Error) > 0 {
		return 1
	}
	return 0
}

// WriteText writes the findings for people, each with its next step on a line
// of its own.
func (fs Findings) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s: %s: %s\n", f.Severity, f.Field, f.Message)
		if f.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", f.Next)
		}
	}
	if len(fs) == 0 {
		b.WriteString("all well\n")
	} else {
		fmt.Fprintf(&b, "%d errors, %d warnings\n", fs.Count(Error), fs.Count(Warning))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes {"ok":…,"findings":[…]}; ok is false with an error.
func (fs Findings) WriteJSON(w io.Writer) error {
	if fs == nil {
		fs = Findings{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		OK       bool     `json:"ok"`
		Findings Findings `json:"findings"`
	}{fs.ExitCode() == 0, fs})
}
