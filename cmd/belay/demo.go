package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/redact"
)

// demoTimeout bounds the whole demo, demoWait each wait of it.
const (
	demoTimeout = 55 * time.Second
	demoWait    = 20 * time.Second
)

func (c *cli) demoCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on a real server in a temporary folder, and check it",
		Long: `Demo starts the real server (embedded nats-server, random ports, a temporary
folder) as a GitHub App of a stand-in for GitHub, sends it signed webhooks,
kills it (SIGKILL) in the middle of a task and starts it again, and prints what
happened with its checks, also of what GitHub shows. It needs no network, takes
seconds, leaves nothing behind, and exits 1 if a check fails.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
			defer cancel()
			return c.demo(ctx, verbose)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print the server's log to standard error")
	cmd.AddCommand(demoTaskCommand(), c.demoServerCommand())
	return cmd
}

func (c *cli) demo(ctx context.Context, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "belay-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{cli: c, dir: dir, log: io.Discard}
	if verbose {
		d.log = c.err
	}
	if d.cfg, err = demoConfig(dir); err != nil {
		return err
	}
	if err := d.openGitHub(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end(syscall.SIGTERM), d.gh.Close()) }()
	if err := d.play(ctx); err != nil {
		d.table.print(c.out)
		return err
	}
	d.table.print(c.out)
	if n := d.table.failed(); n > 0 {
		return fmt.Errorf("%d of %d checks failed", n, len(d.table.rows))
	}
	fmt.Fprintf(c.out, "\nAll %d checks passed. Next: belay serve, then belay send issues.labeled\n", len(d.table.rows))
	return nil
}

// demo is one performance: a server, what was sent to it, what was checked.
type demo struct {
	cli    *cli
	dir    string
	cfg    *config.Config
	log    io.Writer // of the server
	gh     *githubtest.Server
	server *exec.Cmd
	client *apiClient
	table  demoTable
	repeat func() (hookAnswer, error) // sends the first webhook again
}

// letter is a webhook of the demo: a built-in payload and what differs.
type letter struct {
	event string
	id    string
	set   []string
	form  bool
	wrong bool // sign with another secret
}

// post sends a webhook and returns its status and answer.
func (d *demo) post(ctx context.Context, l letter) (int, hookAnswer, error) {
	h, err := d.hook(l)
	if err != nil {
		return 0, hookAnswer{}, err
	}
	ans, err := d.client.deliver(ctx, h)
	if err != nil {
		return 0, hookAnswer{}, err
	}
	return ans.status, readHook(ans), nil
}

// readHook reads an answer of /webhook; a refusal has none of its fields.
func readHook(ans answer) hookAnswer {
	var got hookAnswer
	_ = json.Unmarshal(ans.body, &got)
	return got
}

func (d *demo) hook(l letter) (*hook, error) {
	h := &hook{event: l.event, id: l.id, form: l.form, secret: d.cfg.GitHub.WebhookSecrets[0]}
	if l.wrong {
		h.secret = redact.Secret("not the secret")
	}
	if _, _, known := bytes.Cut([]byte(l.event), []byte(".")); !known {
		h.body = []byte(`{"action":"unheard-of"}`)
		return h, nil
	}
	tree, err := loadPayload(l.event, nil, newVocabulary(d.cfg, time.Now()))
	if err != nil {
		return nil, err
	}
	for _, s := range l.set {
		if err := setValue(tree, s); err != nil {
			return nil, err
		}
	}
	h.body, err = encode(tree)
	return h, err
}

// tasks reads the list.
func (d *demo) tasks(ctx context.Context) (map[string]string, error) {
	ans, err := d.client.get(ctx, "/api/github/tasks", url.Values{"limit": {"1000"}})
	if err != nil {
		return nil, err
	}
	var got struct {
		Tasks []struct{ ID, Status string }
	}
	if err := json.Unmarshal(ans.body, &got); err != nil {
		return nil, fmt.Errorf("read the task list: %w", err)
	}
	out := map[string]string{}
	for _, t := range got.Tasks {
		out[t.ID] = t.Status
	}
	return out, nil
}

// until waits for the list to be as wanted.
func (d *demo) until(ctx context.Context, what string, ok func(map[string]string) bool) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := d.tasks(ctx)
		if err != nil {
			return nil, err
		}
		if ok(list) {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return list, fmt.Errorf("wait for %s: %w; the list was %v", what, ctx.Err(), list)
		case <-tick.C:
		}
	}
}

// attempts reads how a task's attempts ended.
func (d *demo) attempts(ctx context.Context, id string) (string, error) {
	ans, err := d.client.get(ctx, "/api/github/tasks/"+id, nil)
	if err != nil {
		return "", err
	}
	var got struct {
		Task struct{ Attempts []struct{ Outcome string } }
	}
	if err := json.Unmarshal(ans.body, &got); err != nil {
		return "", fmt.Errorf("read a task: %w", err)
	}
	var out []string
	for _, a := range got.Task.Attempts {
		out = append(out, a.Outcome)
	}
	return strings.Join(out, ", "), nil
}

func freshID() string { return uuid.NewString() }

func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write a file of the demo: %w", err)
	}
	return nil
}
