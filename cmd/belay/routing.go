package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// routingItem is what would make tasks for one installation.
type routingItem struct {
	InstallationID int64    `json:"installationId"`
	Account        string   `json:"account"`
	Familiars      []string `json:"familiars"`
	Triggers       []string `json:"triggers"`
	Repos          struct {
		Allow []string `json:"allow"`
		Deny  []string `json:"deny"`
	} `json:"repos"`
	Listed bool `json:"listed"`
}

// routingCommand is `belay routing`.
func (c *cli) routingCommand() *cobra.Command {
	cmd := c.listCommand(listing{
		path: "/api/github/routing", name: "routing", many: "installations",
		head: []string{"INSTALLATION", "ACCOUNT", "FAMILIARS", "TRIGGERS", "REPOS", "LISTED"}, row: routingRow,
	})
	cmd.Use, cmd.Aliases, cmd.Short = "routing", nil, "Show what would make tasks for each installation"
	_ = cmd.Flags().MarkHidden("repo") // installations are shown as a whole
	return c.serverFlag(cmd)
}

func routingRow(raw json.RawMessage) ([]string, error) {
	var r routingItem
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	list := func(of []string, none string) string {
		if len(of) == 0 {
			return none
		}
		return strings.Join(of, ",")
	}
	repos := "all"
	if r.Repos.Allow != nil {
		repos = list(r.Repos.Allow, "none")
	}
	if len(r.Repos.Deny) > 0 {
		repos += " but " + strings.Join(r.Repos.Deny, ",")
	}
	listed := "no"
	if r.Listed {
		listed = "yes"
	}
	return []string{strconv.FormatInt(r.InstallationID, 10), r.Account, list(r.Familiars, "none"), list(r.Triggers, "none"), repos, listed}, nil
}
