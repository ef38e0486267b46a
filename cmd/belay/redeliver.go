package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/app"
	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// redeliverGap is the time between two requests to deliver again.
const redeliverGap = time.Second

// What is said of a delivery that did not arrive.
const (
	resultWould    = "would be asked for"
	resultAsked    = "asked for"
	resultUnderWay = "under way"
	resultFailed   = "failed"
	resultNot      = "not asked for"
)

// wireRedelivery is one delivery that did not arrive, as JSON.
type wireRedelivery struct {
	ID           task.DeliveryID `json:"id"`
	Event        string          `json:"event"`
	Action       string          `json:"action,omitempty"`
	Installation int64           `json:"installation,omitempty"`
	Attempts     int             `json:"attempts"`
	FirstAt      time.Time       `json:"firstAt"`
	LastAt       time.Time       `json:"lastAt"`
	// Status and StatusCode are what GitHub noted of the newest attempt.
	Status     string `json:"status"`
	StatusCode int    `json:"statusCode"`
	Result     string `json:"result"`
	Error      string `json:"error,omitempty"`

	attempt int64
}

// wireRedeliveries is the answer of `belay redeliver -o json`.
type wireRedeliveries struct {
	Source     string           `json:"source"`
	Since      time.Time        `json:"since"`
	Arrived    int              `json:"arrived"`
	Deliveries []wireRedelivery `json:"deliveries"`
}

// redeliverCommand is `belay redeliver`.
func (c *cli) redeliverCommand() *cobra.Command {
	var dry bool
	var since time.Duration
	var source string
	cmd := &cobra.Command{
		Use:   "redeliver",
		Short: "Ask GitHub to deliver again what did not arrive",
		Long: `Reads GitHub's list of the App's deliveries, with the App's key from the
configuration, and asks for those again that got no 2xx in any attempt and that
routing could use. A running belay does this by itself, up to three times a
delivery; this is for what it gave up, and for a look (--dry-run). It asks the
running belay nothing, so it works without one, though what GitHub then delivers
fails again unless the webhook answers. GitHub keeps deliveries for three days.

Exit codes: 0 all well, 1 GitHub did not answer, or refused a delivery, 2 the
command line or the configuration is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 || since > consumers.HookLogKept {
				return usageError("--since %s: write a duration up to %s, which is how long GitHub keeps deliveries", since, "72h")
			}
			client, cfg, err := c.appClient(source)
			if err != nil {
				return err
			}
			defer client.Close()
			out := wireRedeliveries{Source: source, Since: c.now().Add(-since).UTC(), Deliveries: []wireRedelivery{}}
			if err := c.missed(cmd.Context(), client, app.Wants(cfg, source), &out); err != nil {
				return withGitHub(err)
			}
			failed := c.askAgain(cmd.Context(), client, out.Deliveries, dry)
			if err := c.showRedeliveries(&out); err != nil {
				return err
			}
			return withGitHub(failed)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&dry, "dry-run", false, "only say what would be asked for")
	f.DurationVar(&since, "since", 24*time.Hour, "how far to look back, up to 72h")
	f.StringVar(&source, "source", task.DefaultSource, "the `source` whose App is asked")
	return cmd
}

// appClient makes a client of a source's App.
func (c *cli) appClient(source string) (*githubapp.Client, *config.Config, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	src, ok := cfg.SourceByName(source)
	if !ok {
		return nil, nil, usageError("--source %s: there is no such source; add it to [[sources]], or leave --source out", source)
	}
	if !src.GitHub.HasApp() {
		return nil, nil, usageError("%s.app_id is not set: only a GitHub App can list and repeat deliveries; set it and private_key_file, or redeliver on the webhook's page", src.Key)
	}
	key, err := src.GitHub.AppKey()
	if err != nil {
		return nil, nil, err
	}
	client, err := githubapp.New(githubapp.Options{AppID: src.GitHub.AppID, PrivateKey: key, APIURL: src.GitHub.APIURL, Now: c.now})
	return client, cfg, err
}

// withGitHub adds what to do to an error of GitHub's.
func withGitHub(err error) error {
	switch {
	case errors.Is(err, githubapp.ErrUnauthorized):
		return fmt.Errorf("%w: check github.app_id and the App's key", err)
	case errors.Is(err, githubapp.ErrRateLimited), errors.Is(err, githubapp.ErrTransient):
		return fmt.Errorf("%w: run it again later", err)
	}
	return err
}

// missed lists what did not arrive, the oldest first.
func (c *cli) missed(ctx context.Context, client *githubapp.Client, wants consumers.Wants, out *wireRedeliveries) error {
	sent, err := consumers.Sends(ctx, client, out.Since, wants)
	if err != nil {
		return err
	}
	for _, s := range sent {
		if s.Arrived() {
			out.Arrived++
			continue
		}
		d := wireRedelivery{
			ID: s.GUID, Event: s.Event, Action: s.Action, Installation: s.InstallationID, Attempts: s.Attempts, FirstAt: s.FirstAt,
			LastAt: s.LastAt, Status: s.Status, StatusCode: s.StatusCode, Result: resultWould, attempt: s.Attempt,
		}
		if s.UnderWay(c.now()) {
			d.Result = resultUnderWay
		}
		out.Deliveries = append(out.Deliveries, d)
	}
	return nil
}

// askAgain asks for each, and notes what came of it. After a limit it stops.
func (c *cli) askAgain(ctx context.Context, client *githubapp.Client, list []wireRedelivery, dry bool) error {
	var failed error
	asked := 0
	for i := range list {
		d := &list[i]
		if dry || d.Result != resultWould {
			continue
		}
		if errors.Is(failed, githubapp.ErrRateLimited) || errors.Is(failed, githubapp.ErrUnauthorized) {
			d.Result = resultNot
			continue
		}
		if asked > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(redeliverGap):
			}
		}
		asked++
		d.Result = resultAsked
		if err := client.Redeliver(ctx, d.attempt); err != nil {
			d.Result, d.Error, failed = resultFailed, err.Error(), err
		}
	}
	return failed
}

func (c *cli) showRedeliveries(out *wireRedeliveries) error {
	if c.output == outputJSON {
		return printJSON(c.out, out)
	}
	if len(out.Deliveries) == 0 {
		_, err := fmt.Fprintf(c.out, "nothing to ask for: %d deliveries arrived since %s\n", out.Arrived, out.Since.Format(time.RFC3339))
		return err
	}
	var rows [][]string
	for _, d := range out.Deliveries {
		event := deliveryItem{Event: d.Event, Action: d.Action}
		answer := d.Status
		if d.StatusCode != 0 {
			answer = strconv.Itoa(d.StatusCode) + " " + d.Status
		}
		result := d.Result
		if d.Error != "" {
			result += ": " + d.Error
		}
		rows = append(rows, []string{
			string(d.ID), event.event(), age(d.FirstAt.Format(time.RFC3339), c.now()), strconv.Itoa(d.Attempts), cut(answer, maxTitle), result,
		})
	}
	return table(c.out, []string{"ID", "EVENT", "FIRST TRY", "TRIES", "LAST ANSWER", "RESULT"}, rows)
}
