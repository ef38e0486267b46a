package main

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// usageItem is what one familiar did for one repository.
type usageItem struct {
	InstallationID int64   `json:"installationId"`
	Repo           string  `json:"repo"`
	FamiliarID     string  `json:"familiarId"`
	Tasks          int     `json:"tasks"`
	Completed      int     `json:"completed"`
	Failed         int     `json:"failed"`
	RuntimeSecs    float64 `json:"runtimeSecs"`
}

// usageCommand is `belay usage`.
func (c *cli) usageCommand() *cobra.Command {
	var since, until, days string
	cmd := c.listCommand(listing{
		path: "/api/github/usage", name: "usage", many: "tasks",
		head: []string{"INSTALLATION", "REPO", "FAMILIAR", "TASKS", "COMPLETED", "FAILED", "RUNTIME"}, row: usageRow,
		filters: map[string]*string{"since": &since, "until": &until, "days": &days},
	})
	cmd.Use, cmd.Aliases, cmd.Short = "usage", nil, "Show what was done, by installation, repository and familiar"
	cmd.Long = `Each task counts once, however many attempts it took, on the day (UTC) that it
was created on, with the state that it has now. The runtime is that of the
attempts that ended. Tasks whose retention is over count no more.`
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "from this `day` on, such as 2026-05-01")
	flags.StringVar(&until, "until", "", "to this `day`, included")
	flags.StringVar(&days, "days", "", "the last `n` days, today included")
	cmd.MarkFlagsMutuallyExclusive("days", "since")
	cmd.MarkFlagsMutuallyExclusive("days", "until")
	return c.serverFlag(cmd)
}

func usageRow(raw json.RawMessage) ([]string, error) {
	var u usageItem
	if err := json.Unmarshal(raw, &u); err != nil {
		return nil, err
	}
	runtime := time.Duration(u.RuntimeSecs * float64(time.Second)).Round(100 * time.Millisecond)
	return []string{
		strconv.FormatInt(u.InstallationID, 10), u.Repo, u.FamiliarID,
		strconv.Itoa(u.Tasks), strconv.Itoa(u.Completed), strconv.Itoa(u.Failed), runtime.String(),
	}, nil
}
