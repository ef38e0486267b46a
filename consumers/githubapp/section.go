package githubapp

import (
	"strings"

	"github.com/belay-run/belay/kv/task"
)

// A status comment has two sections: what the last task came to, which names
// its task, and an answer to a command below it. An answer leaves the first
// as it is; a task that begins drops the answer. No text of others can begin
// a section: safe breaks comments of HTML.
//
//	<!-- belay:status v1 … -->       the marker
//	<!-- belay:task <id> -->
//	…
//	<!-- belay:reply -->
//	…
const (
	taskOpen  = "<!-- belay:task "
	replyOpen = "<!-- belay:reply -->"
)

func taskLine(id task.ID) string { return taskOpen + string(id) + " -->" }

// mainOf is the first section of a body without marker.
func mainOf(body string) string {
	main, _, _ := strings.Cut(body, replyOpen)
	return strings.TrimSpace(main)
}

// isOf reports whether the first section is a task's.
func isOf(body string, id task.ID) bool { return strings.HasPrefix(mainOf(body), taskLine(id)) }

// withReply puts an answer below the first section. It is belay's own text,
// with names of others in it at most.
func withReply(body, reply string) string {
	reply = replyOpen + "\n" + cut(strings.ReplaceAll(reply, "<!", "<"+gap+"!"), maxReply)
	if main := mainOf(body); main != "" {
		return main + "\n\n" + reply
	}
	return reply
}
