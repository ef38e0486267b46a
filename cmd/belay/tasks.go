package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/kv/view"
)

const tasksPath = "/api/github/tasks"

// taskItem is a task as the API's list shows it.
type taskItem struct {
	ID           string `json:"id"`
	Repo         string `json:"repo"`
	IssueNumber  int    `json:"issueNumber"`
	IssueTitle   string `json:"issueTitle"`
	Branch       string `json:"branch"`
	PRNumber     int    `json:"prNumber"`
	PRURL        string `json:"prUrl"`
	Status       string `json:"status"`
	FamiliarID   string `json:"familiarId"`
	FamiliarName string `json:"familiarName"`
	UpdatedAt    string `json:"updatedAt"`
	CheckRunURL  string `json:"checkRunUrl"`
}

// taskDetail is one task as a whole.
type taskDetail struct {
	taskItem
	State        string `json:"state"`
	ResultStatus string `json:"resultStatus"`
	Reason       string `json:"reason"`
	Summary      string `json:"summary"`
	SupersededBy string `json:"supersededBy"`
	SupersedeKey string `json:"supersedeKey"`
	NotBefore    string `json:"notBefore"`
	Waits        string `json:"waits"`
	Kind         struct {
		Kind string `json:"kind"`
	} `json:"kind"`
	InstallationID int64  `json:"installationId"`
	HeadSHA        string `json:"headSha"`
	Commander      string `json:"commander"`
	CreatedAt      string `json:"createdAt"`
	Delivery       struct {
		ID  string `json:"id"`
		Seq uint64 `json:"seq"`
	} `json:"delivery"`
	Attempts []taskAttempt `json:"attempts"`
	Outbox   []outboxItem  `json:"outbox"`
	Events   []taskEvent   `json:"events"`
}

// taskEvent is something that was reported of a task.
type taskEvent struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	At   string          `json:"at"`
}

// taskAttempt is one run of a task.
type taskAttempt struct {
	N         int    `json:"n"`
	Worker    string `json:"worker"`
	StartedAt string `json:"startedAt"`
	EndedAt   string `json:"endedAt"`
	Outcome   string `json:"outcome"`
	Detail    string `json:"detail"`
	Tail      string `json:"tail"`
}

// open reports whether the task is not at its end.
func (t *taskDetail) open() bool {
	return t.Status == "queued" || t.Status == "running" || t.Status == "received"
}

// tasksCommand is `belay tasks`.
func (c *cli) tasksCommand() *cobra.Command {
	return group("tasks", "List, show and steer tasks",
		c.serverFlag(c.tasksListCommand()),
		c.serverFlag(c.tasksShowCommand()),
		c.serverFlag(c.tasksLogsCommand()),
		c.serverFlag(c.tasksRetryCommand()),
		c.serverFlag(c.tasksCancelCommand()),
	)
}

func (c *cli) tasksListCommand() *cobra.Command {
	var status string
	cmd := c.listCommand(listing{
		short: "List tasks, the last changed first", path: tasksPath, name: "tasks", many: "tasks",
		head: []string{"ID", "STATUS", "REPO", "TITLE", "FAMILIAR", "UPDATED"}, row: c.taskRow,
		filters: map[string]*string{"status": &status},
	})
	cmd.Flags().StringVar(&status, "status", "", "only of one `status`: "+strings.Join(view.Statuses, ", "))
	return cmd
}

func (c *cli) taskRow(raw json.RawMessage) ([]string, error) {
	var t taskItem
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	return []string{t.ID, t.Status, t.Repo, cut(titled(&t), maxTitle), t.FamiliarID, age(t.UpdatedAt, c.now())}, nil
}

// titled is the title with the issue's number, where the title has none.
func titled(t *taskItem) string {
	number := "#" + strconv.Itoa(t.IssueNumber)
	if t.IssueNumber == 0 || strings.Contains(t.IssueTitle, number) {
		return t.IssueTitle
	}
	return number + " " + t.IssueTitle
}

func (c *cli) tasksShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one task with its attempts and what it sent",
		Args:  oneID("task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			ans, err := a.get(cmd.Context(), tasksPath+"/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return noTask(err)
			}
			return c.printTask(a, ans, func(t *taskDetail) error { return c.showTask(t) })
		},
	}
}

// printTask writes the task of an answer as JSON, or with show.
func (c *cli) printTask(a *apiClient, ans answer, show func(*taskDetail) error) error {
	var body struct {
		Task json.RawMessage `json:"task"`
	}
	if err := a.decode(ans, &body); err != nil {
		return err
	}
	if c.output == outputJSON {
		return printJSON(c.out, body.Task)
	}
	var t taskDetail
	if err := a.decode(answer{body: body.Task}, &t); err != nil {
		return err
	}
	return show(&t)
}

// noTask adds to an error what to do about a task that is not there.
func noTask(err error) error {
	return withNext(err, http.StatusNotFound, "`belay tasks ls` lists those there are")
}

func (c *cli) showTask(t *taskDetail) error {
	pairs := [][2]string{
		{"task", t.ID},
		{"title", titled(&t.taskItem)},
		{"status", t.Status},
		{"result", t.ResultStatus},
		{"reason", t.Reason},
		{"superseded by", t.SupersededBy},
		{"kind", t.Kind.Kind},
		{"repo", t.Repo},
		{"head", t.HeadSHA},
		{"branch", t.Branch},
		{"pull request", t.PRURL},
		{"check run", t.CheckRunURL},
		{"familiar", t.FamiliarName},
		{"commander", t.Commander},
		{"supersede key", t.SupersedeKey},
		{"delivery", t.Delivery.ID},
		{"created", t.CreatedAt},
		{"updated", t.UpdatedAt},
		{"not before", t.NotBefore},
		{"waits", t.Waits},
		{"summary", t.Summary},
	}
	if err := fields(c.out, pairs); err != nil {
		return err
	}
	for _, at := range t.Attempts {
		if err := c.showAttempt(at); err != nil {
			return err
		}
	}
	if err := c.showEvents(t.Events); err != nil {
		return err
	}
	return c.showOutbox(t.Outbox)
}

// maxData is how many runes of an event's data are shown.
const maxData = 100

// showEvents writes what was reported of a task, the newest last.
func (c *cli) showEvents(events []taskEvent) error {
	if len(events) > 0 {
		if _, err := fmt.Fprintln(c.out); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	for _, e := range events {
		if _, err := fmt.Fprintln(c.out, strings.TrimSpace("event "+safe(e.At)+" "+safe(e.Type)+" "+safe(cut(string(e.Data), maxData)))); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

func (c *cli) showAttempt(at taskAttempt) error {
	outcome := at.Outcome
	if outcome == "" {
		outcome = "running"
	}
	span := at.StartedAt
	if at.EndedAt != "" {
		span += " to " + at.EndedAt
	}
	if _, err := fmt.Fprintf(c.out, "\nattempt %d: %s on %s, %s\n", at.N, safe(outcome), safe(at.Worker), safe(span)); err != nil {
		return fmt.Errorf("write attempt: %w", err)
	}
	for _, text := range []string{at.Detail, at.Tail} {
		if text = strings.TrimRight(text, "\n"); text == "" {
			continue
		}
		if _, err := fmt.Fprintln(c.out, "  "+strings.ReplaceAll(safeText(text), "\n", "\n  ")); err != nil {
			return fmt.Errorf("write attempt: %w", err)
		}
	}
	return nil
}

// oneID wants exactly one argument, and says what it is.
func oneID(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		return usageError("%s needs the id of one %s", cmd.CommandPath(), what)
	}
}
