package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/view"
)

const outboxPath = "/api/github/outbox"

// maxWhy is how many runes of an error a table shows.
const maxWhy = 50

// outboxItem is one record of the outbox.
type outboxItem struct {
	ID        string `json:"id"`
	Channel   string `json:"channel"`
	To        string `json:"to"`
	TaskID    string `json:"taskId"`
	Status    string `json:"status"`
	Unknown   bool   `json:"unknown"`
	Attempts  int    `json:"attempts"`
	LastError string `json:"lastError"`
	UpdatedAt string `json:"updatedAt"`
}

// status is the record's, or that nobody knows what became of it.
func (o *outboxItem) status() string {
	if o.Unknown {
		return view.StatusUnknown
	}
	return o.Status
}

// outboxCommand is `belay outbox`.
func (c *cli) outboxCommand() *cobra.Command {
	return group("outbox", "List what was sent to callbacks and GitHub, and settle what is unknown",
		c.serverFlag(c.outboxListCommand()),
		c.serverFlag(c.outboxResolveCommand()),
	)
}

func (c *cli) outboxListCommand() *cobra.Command {
	var status, taskID, channel, unknown string
	cmd := c.listCommand(listing{
		short: "List what was sent and what waits, the last changed first", path: outboxPath, name: "outbox", many: "outbox records",
		head: []string{"ID", "STATUS", "CHANNEL", "TO", "TRIES", "UPDATED", "LAST ERROR"}, row: c.outboxRow,
		filters: map[string]*string{"status": &status, "task": &taskID, "channel": &channel, "unknown": &unknown},
	})
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only of one `status`: "+strings.Join(view.OutboxStatuses, ", "))
	flags.StringVar(&taskID, "task", "", "only of one task `id`")
	flags.StringVar(&channel, "channel", "", "only of one `channel`, such as callback:ci")
	flags.BoolFunc("unknown", "only those of which nobody can say whether they arrived", func(v string) error {
		on, err := strconv.ParseBool(v)
		if unknown = ""; on {
			unknown = "true"
		}
		return err
	})
	cmd.MarkFlagsMutuallyExclusive("status", "unknown")
	return cmd
}

func (c *cli) outboxRow(raw json.RawMessage) ([]string, error) {
	var o outboxItem
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	return []string{o.ID, o.status(), o.Channel, o.To, strconv.Itoa(o.Attempts), age(o.UpdatedAt, c.now()), cut(o.LastError, maxWhy)}, nil
}

func (c *cli) outboxResolveCommand() *cobra.Command {
	var delivered, failed, resend bool
	var reason string
	cmd := &cobra.Command{
		Use:   "resolve ID",
		Short: "Settle a record of which nobody can say whether it arrived",
		Long: `A record is unknown when its recipient gave no answer after the message was
written, or the process died while it sent. belay never sends it again by
itself, as that could make two of one. Ask the recipient, and then say one of:

  --delivered  the recipient has it
  --failed     the recipient does not have it, and shall not get it
  --resend     it shall be sent once more, as a new record; the recipient sees
               the same webhook-id, and can tell a repetition by it

The reason is kept with the record and in the audit trail.`,
		Args: oneID("outbox record"),
		RunE: func(cmd *cobra.Command, args []string) error {
			how, err := resolution(delivered, failed, resend)
			if err != nil {
				return err
			}
			if reason = strings.TrimSpace(reason); reason == "" {
				return usageError("--reason is missing: say how you know, such as --reason 'their log has it'")
			}
			return c.resolveOutbox(cmd, args[0], how, reason)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&delivered, "delivered", false, "the recipient has it")
	flags.BoolVar(&failed, "failed", false, "the recipient does not have it, and shall not get it")
	flags.BoolVar(&resend, "resend", false, "send it once more")
	flags.StringVar(&reason, "reason", "", "how you know, for the record")
	return cmd
}

// resolution is the one of three flags that is set.
func resolution(delivered, failed, resend bool) (outbox.Resolution, error) {
	var how []outbox.Resolution
	for _, f := range []struct {
		set bool
		as  outbox.Resolution
	}{{delivered, outbox.ResolveDelivered}, {failed, outbox.ResolveFailed}, {resend, outbox.ResolveResend}} {
		if f.set {
			how = append(how, f.as)
		}
	}
	if len(how) != 1 {
		return "", usageError("write one of --delivered, --failed and --resend")
	}
	return how[0], nil
}

func (c *cli) resolveOutbox(cmd *cobra.Command, id string, how outbox.Resolution, reason string) error {
	a, err := c.dial()
	if err != nil {
		return err
	}
	ans, err := a.post(cmd.Context(), outboxPath+"/"+url.PathEscape(id)+"/resolve", map[string]string{"as": string(how), "reason": reason})
	if err != nil {
		err = withNext(err, http.StatusConflict, "only what is unknown is resolved; `belay outbox ls --unknown` lists it")
		return withNext(err, http.StatusNotFound, "`belay outbox ls` lists those there are")
	}
	var body struct {
		Record   outboxItem  `json:"record"`
		ResentAs *outboxItem `json:"resentAs"`
	}
	if err := a.decode(ans, &body); err != nil {
		return err
	}
	if c.output == outputJSON {
		return printJSON(c.out, json.RawMessage(ans.body))
	}
	text := body.Record.ID + ": " + body.Record.Status
	if body.ResentAs != nil {
		text += ", sent again as " + body.ResentAs.ID
	}
	_, err = fmt.Fprintln(c.out, safe(text))
	return err
}

// showOutbox writes what one task sent.
func (c *cli) showOutbox(items []outboxItem) error {
	for _, o := range items {
		tries := "tries"
		if o.Attempts == 1 {
			tries = "try"
		}
		if _, err := fmt.Fprintf(c.out, "\noutbox %s: %s, %s to %s, %d %s, %s\n", safe(o.ID), safe(o.status()), safe(o.Channel), safe(o.To), o.Attempts, tries, safe(o.UpdatedAt)); err != nil {
			return fmt.Errorf("write outbox: %w", err)
		}
		if o.LastError != "" {
			if _, err := fmt.Fprintln(c.out, "  "+safe(o.LastError)); err != nil {
				return fmt.Errorf("write outbox: %w", err)
			}
		}
		if o.Unknown {
			if _, err := fmt.Fprintf(c.out, "  nobody can say whether it arrived: ask the recipient, then `belay outbox resolve %s --help`\n", safe(o.ID)); err != nil {
				return fmt.Errorf("write outbox: %w", err)
			}
		}
	}
	return nil
}
