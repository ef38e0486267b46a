package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// maxDetail is how many runes of an entry's detail a table shows.
const maxDetail = 80

// auditItem is one entry of the audit trail.
type auditItem struct {
	At     string `json:"at"`
	TaskID string `json:"taskId"`
	Repo   string `json:"repo"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Caller string `json:"caller"`
}

// auditCommand is `belay audit`.
func (c *cli) auditCommand() *cobra.Command {
	return group("audit", "List who did what", c.serverFlag(c.auditListCommand()))
}

func (c *cli) auditListCommand() *cobra.Command {
	var kind, caller, taskID string
	cmd := c.listCommand(listing{
		short: "List who did what, the newest first", path: "/api/github/audit", name: "audit", many: "audit entries",
		head: []string{"AT", "KIND", "CALLER", "REPO", "TASK", "DETAIL"}, row: auditRow,
		filters: map[string]*string{"kind": &kind, "caller": &caller, "task": &taskID},
	})
	flags := cmd.Flags()
	flags.StringVar(&kind, "kind", "", "only of one `kind`, such as retry or denied")
	flags.StringVar(&caller, "caller", "", "only of one `caller`, such as tenant:acme")
	flags.StringVar(&taskID, "task", "", "only of one task `id`")
	return cmd
}

func auditRow(raw json.RawMessage) ([]string, error) {
	var a auditItem
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, err
	}
	return []string{a.At, a.Kind, a.Caller, a.Repo, a.TaskID, cut(a.Detail, maxDetail)}, nil
}
