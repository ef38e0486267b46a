package task

import "strconv"

// Supersede says which older queued tasks of the same rule a task takes the
// place of.
type Supersede string

// The values of Supersede. Whatever the value, tasks that run are left alone:
// the newer one waits for them.
const (
	// SupersedeNone leaves every task its turn.
	SupersedeNone Supersede = "none"
	// SupersedePull replaces those of the same pull request.
	SupersedePull Supersede = "pull"
	// SupersedeBranch replaces those of the same branch.
	SupersedeBranch Supersede = "branch"
)

// Rule is the configured rule that made a task.
type Rule struct {
	Name string `json:"name"`
	// Group names those of the rule's tasks in a repository of which only the
	// newest should run: PullGroup, BranchGroup, or "" where each should.
	Group string `json:"group,omitempty"`
}

// PullGroup is the group of a pull request.
func PullGroup(number int) string { return "#" + strconv.Itoa(number) }

// BranchGroup is the group of a branch.
func BranchGroup(branch string) string { return "@" + branch }
