package githubapp

import (
	"fmt"
	"strings"

	"github.com/belay-run/belay/kv/task"
)

// Phase is where a task stands, as its surfaces show it.
type Phase string

// The phases.
const (
	Working    Phase = "working"
	Done       Phase = "done" // with an Outcome
	Stale      Phase = "stale"
	Superseded Phase = "superseded"
	Cancelled  Phase = "cancelled"
	Failed     Phase = "failed" // without an Outcome
)

// Card is all that the surfaces of a task say. Its texts may be anybody's:
// rendering makes them safe.
type Card struct {
	Familiar   string // display name
	Task       task.ID
	Title      string
	Head       string
	Phase      Phase
	Why        string // of Stale, Superseded, Cancelled, Failed
	Outcome    *Outcome
	CheckURL   string
	PullURL    string
	PullNumber int
	// PullProblem is why there is no pull request though there are commits.
	PullProblem string
}

// Limits of the parts of a comment, in bytes.
const (
	maxMain    = 54 << 10
	maxReply   = 8 << 10
	maxSummary = 16 << 10
	maxText    = 1 << 10 // of one finding
	maxShown   = 50      // findings
)

// conclude is a phase's check run.
func (c *Card) conclude() (Conclusion, string) {
	switch c.Phase {
	case Done:
		if c.Outcome != nil {
			conclusion, title := c.Outcome.conclude()
			if conclusion == Success && c.PullProblem != "" {
				return Neutral, "Partial"
			}
			return conclusion, title
		}
	case Stale:
		return Neutral, "Stale"
	case Superseded:
		return Neutral, "Superseded"
	case Cancelled:
		return Neutral, "Cancelled"
	case Working:
		return "", "Working"
	}
	return Failure, "Failed"
}

// Check renders the check run.
func (c *Card) Check() CheckUpdate {
	conclusion, title := c.conclude()
	out := CheckUpdate{Status: StatusCompleted, Conclusion: conclusion, Title: title}
	if c.Phase == Working {
		out.Status = StatusInProgress
	}
	if c.Outcome != nil && c.Outcome.Review != nil {
		if shown, _ := c.Outcome.Review.gate(); conclusion == Success {
			out.Title += ": " + count(shown)
		}
	}
	out.Summary = cut(strings.TrimSpace(c.text()+"\n\n"+c.footer(false)), maxOutput)
	return out
}

// Comment renders the body of the status comment, without its marker.
func (c *Card) Comment() string {
	_, state := c.conclude()
	head := fmt.Sprintf("**%s** · %s", inline(c.Familiar, 100), state)
	if title := inline(c.Title, 300); title != "" {
		head += " · " + title
	}
	foot := taskLine(c.Task) + "\n" + head + "\n\n"
	end := "\n\n" + c.footer(true)
	return foot + fit(c.text(), maxMain-len(foot)-len(end)) + end
}

// text is the middle: what happened.
func (c *Card) text() string {
	switch c.Phase {
	case Working:
		return "Working on it."
	case Done:
		if c.Outcome != nil {
			return c.Outcome.text(c)
		}
	case Stale:
		return para("The head has moved, so nothing of this review is shown.", block(c.Why, maxText))
	case Superseded:
		return para("Another task has taken this one's place.", block(c.Why, maxText))
	case Cancelled:
		return para("This task was cancelled.", block(c.Why, maxText))
	}
	return para("This task ended without a result.", block(c.Why, maxText))
}

func (o *Outcome) text(c *Card) string {
	var parts []string
	if o.ExitReason != "" {
		parts = append(parts, "Reason: "+code(o.ExitReason, 100))
	}
	parts = append(parts, block(o.Summary, maxSummary))
	if c.PullNumber != 0 {
		parts = append(parts, "Pull request: "+link(fmt.Sprintf("#%d", c.PullNumber), c.PullURL))
	}
	if c.PullProblem != "" {
		parts = append(parts, "No pull request could be opened: "+inline(c.PullProblem, 500))
	}
	if o.Review != nil {
		parts = append(parts, o.Review.text())
	}
	return para(parts...)
}

// footer names the task, the head and, in the comment, the check run.
func (c *Card) footer(withCheck bool) string {
	out := "Task " + code(string(c.Task), 64)
	if c.Head != "" {
		out += " at " + code(c.Head[:min(len(c.Head), 12)], 12)
	}
	if withCheck && c.CheckURL != "" {
		out += " · " + link("check run", c.CheckURL)
	}
	return "<sub>" + out + "</sub>"
}

// para joins what is not empty by blank lines.
func para(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}

// link is a Markdown link to an address that GitHub gave; anything odd stays text.
func link(text, url string) string {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") || strings.ContainsAny(url, " <>()[]\"'`\n") {
		return text
	}
	return "[" + text + "](" + url + ")"
}
