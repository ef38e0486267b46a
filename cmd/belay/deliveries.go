package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

const deliveriesPath = "/api/github/deliveries"

// deliveryItem is one delivery of the log.
type deliveryItem struct {
	ID           string `json:"id"`
	Source       string `json:"source"`
	Event        string `json:"event"`
	Action       string `json:"action"`
	Installation int64  `json:"installation"`
	Repo         string `json:"repo"`
	Routing      string `json:"routing"`
	PayloadHash  string `json:"payloadHash"`
	ReceivedAt   string `json:"receivedAt"`
	Seq          uint64 `json:"seq"`
	ReplayOf     string `json:"replayOf"`
}

// event is the event with its action.
func (d *deliveryItem) event() string {
	if d.Action == "" {
		return d.Event
	}
	return d.Event + "." + d.Action
}

// deliveriesCommand is `belay deliveries`.
func (c *cli) deliveriesCommand() *cobra.Command {
	return group("deliveries", "List, show and replay deliveries",
		c.serverFlag(c.deliveriesListCommand()),
		c.serverFlag(c.deliveriesShowCommand()),
		c.serverFlag(c.deliveriesReplayCommand()),
	)
}

func (c *cli) deliveriesListCommand() *cobra.Command {
	return c.listCommand(listing{
		short: "List deliveries, the newest first", path: deliveriesPath, name: "deliveries", many: "deliveries",
		head: []string{"ID", "EVENT", "REPO", "ROUTING", "RECEIVED"}, row: c.deliveryRow,
	})
}

func (c *cli) deliveryRow(raw json.RawMessage) ([]string, error) {
	var d deliveryItem
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	return []string{d.ID, d.event(), d.Repo, d.Routing, age(d.ReceivedAt, c.now())}, nil
}

func (c *cli) deliveriesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one delivery",
		Args:  oneID("delivery"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			ans, err := a.get(cmd.Context(), deliveriesPath+"/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return withNext(err, http.StatusNotFound, "`belay deliveries ls` lists those there are")
			}
			return c.showDelivery(a, ans)
		},
	}
}

func (c *cli) deliveriesReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay ID",
		Short: "Route an ignored delivery once more, by the configuration in force",
		Long: `Has belay read an ignored delivery's payload from GitHub again, which keeps it
for three days, and route it by the configuration in force, as a delivery of its
own: for one that was ignored before the configuration was corrected. It makes
one task, however often it is replayed. A delivery that made a task is refused:
"belay tasks retry" runs that again. What never arrived is for "belay redeliver".`,
		Args: oneID("delivery"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			ans, err := a.post(cmd.Context(), deliveriesPath+"/"+url.PathEscape(args[0])+"/replay", struct{}{})
			if err != nil {
				return withNext(err, http.StatusNotFound, "`belay deliveries ls` lists those there are, `belay redeliver` asks GitHub for what never arrived")
			}
			return c.replayed(a, args[0], ans)
		},
	}
}

func (c *cli) replayed(a *apiClient, id string, ans answer) error {
	if c.output == outputJSON {
		return printJSON(c.out, json.RawMessage(ans.body))
	}
	var out struct {
		Task      string `json:"task"`
		Duplicate bool   `json:"duplicate"`
	}
	if err := a.decode(ans, &out); err != nil {
		return err
	}
	said := "replayed as task"
	if out.Duplicate {
		said = "was replayed before, as task"
	}
	_, err := fmt.Fprintf(c.out, "%s: %s %s\n", safe(id), said, safe(out.Task))
	return err
}

func (c *cli) showDelivery(a *apiClient, ans answer) error {
	var body struct {
		Delivery json.RawMessage `json:"delivery"`
	}
	if err := a.decode(ans, &body); err != nil {
		return err
	}
	if c.output == outputJSON {
		return printJSON(c.out, body.Delivery)
	}
	var d deliveryItem
	if err := a.decode(answer{body: body.Delivery}, &d); err != nil {
		return err
	}
	installation := ""
	if d.Installation != 0 {
		installation = strconv.FormatInt(d.Installation, 10)
	}
	return fields(c.out, [][2]string{
		{"delivery", d.ID},
		{"replay of", d.ReplayOf},
		{"event", d.event()},
		{"routing", d.Routing},
		{"repo", d.Repo},
		{"installation", installation},
		{"source", d.Source},
		{"received", d.ReceivedAt},
		{"sequence", strconv.FormatUint(d.Seq, 10)},
		{"body's SHA-256", d.PayloadHash},
	})
}
