package githubapp

import (
	"fmt"
	"strings"

	"github.com/belay-run/belay/kv/task"
)

// maxTasks is how many tasks StatusText lists.
const maxTasks = 20

// StatusText answers the command status with the thread's tasks, as they are given.
func StatusText(tasks []task.Record) string {
	if len(tasks) == 0 {
		return "There are no tasks here yet."
	}
	var b strings.Builder
	b.WriteString("Tasks here:\n\n")
	for i, t := range tasks {
		if i == maxTasks {
			fmt.Fprintf(&b, "- … and %d more\n", len(tasks)-maxTasks)
			break
		}
		state := string(t.State)
		if t.ResultStatus != "" {
			state += ", " + string(t.ResultStatus)
		}
		fmt.Fprintf(&b, "- %s: **%s**, %s\n", inline(t.Title, 200), inline(state, 64), code(string(t.ID), 64))
	}
	return strings.TrimRight(b.String(), "\n")
}

// CancelledText answers the command cancel with what it did (DT-94).
func CancelledText(reviews int) string {
	switch reviews {
	case 0:
		return "There were no queued reviews of this pull request to cancel."
	case 1:
		return "Cancelled 1 queued review of this pull request."
	}
	return fmt.Sprintf("Cancelled %d queued reviews of this pull request.", reviews)
}

// DeclinedText answers a command whose commander may not give it.
func DeclinedText(login string) string {
	return fmt.Sprintf("Declined: %s has no write access to this repository.", code(login, 100))
}
