package view

import (
	"errors"

	"github.com/belay-run/belay/kv/task"
)

// ErrCursor means that a cursor is not one that List gave out.
var ErrCursor = errors.New("cursor is not valid")

// Item is one task as lists show it.
type Item struct {
	ID             task.ID
	InstallationID int64
	Repo           string
	Number         int
	Title          string
	Branch         string
	PRNumber       int
	PRURL          string
	CheckRunURL    string
	State          task.State
	ResultStatus   task.ResultStatus
	FamiliarID     string
	Kind           task.KindName
	Attempts       int
	UpdatedAt      task.Time
}

// Status is the wire projection of a task's state (DT-98): queued, running,
// review, done, failed, superseded or cancelled.
func Status(state task.State, result task.ResultStatus, prNumber int) string {
	if state != task.Completed {
		return string(state)
	}
	if result == task.ResultNeedsInput || prNumber != 0 {
		return "review"
	}
	return "done"
}

// Statuses lists every value of Status.
var Statuses = []string{"queued", "running", "review", "done", "failed", "superseded", "cancelled"}

// Query selects a page of the list. Zero fields do not filter.
type Query struct {
	// Installation and Repos are the caller's scope: nil means all.
	Installation *int64
	Repos        []string
	// Repo and Status are the caller's filters; Status is one of Statuses.
	Repo   string
	Status string
	// Limit is the largest number of items, at least 1.
	Limit int
	// Cursor is the Next of the page before, "" for the first page.
	Cursor string
}

// Page is a part of the list, ordered by UpdatedAt descending, then by id.
type Page struct {
	Items []Item
	// Next is the opaque cursor of the following page, "" at the end.
	Next string
}
