package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/app"
	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/natsserver"
)

// demoServerCommand is the server of the demo, a process of its own so that it
// can be killed: belay serve on random ports, without the pauses that GitHub
// wants between writes.
func (c *cli) demoServerCommand() *cobra.Command {
	var dir, api string
	var appID int64
	cmd := &cobra.Command{
		Use:    "server",
		Short:  "Run the server of the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := demoConfig(dir)
			if err != nil {
				return err
			}
			cfg.GitHub.AppID, cfg.GitHub.APIURL = appID, api
			go func() { // a demo that is gone holds the other end no more
				_, _ = io.Copy(io.Discard, os.Stdin)
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}()
			return c.serve(app.Options{
				Config: cfg, Logger: app.NewLogger(c.err, slog.LevelInfo, time.Now), NATSListen: natsserver.ListenRandom, GitHubSleep: hurry,
			}, func() (*config.Config, error) { return cfg, nil })
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the demo's folder")
	cmd.Flags().Int64Var(&appID, "app-id", 0, "the App's id")
	cmd.Flags().StringVar(&api, "api-url", "", "the stand-in of GitHub")
	return cmd
}

// demoGate is the file that lets the demo's tasks finish; until then they run.
func demoGate(dir string) string { return filepath.Join(dir, "finish") }

// demoConfig is the configuration of demo and server, but for the App's id.
func demoConfig(dir string) (*config.Config, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find my own program: %w", err)
	}
	cfg := config.Default(filepath.Join(dir, "data"))
	cfg.Server.Listen, cfg.Server.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Worker.Concurrency = 1
	cfg.Worker.DrainTimeout = time.Second
	cfg.Review.PullRequest = true
	cfg.GitHub.PrivateKeyFile = filepath.Join(dir, "app.pem")
	cfg.Familiars[0].Command = []string{exe, "demo", "task", "--gate", demoGate(dir), "--brief", "{brief}", "--result", "{result}"}
	_, err = cfg.EnsureSecret()
	return cfg, err
}

// start starts the server; the second time on what the first left behind.
func (d *demo) start(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find my own program: %w", err)
	}
	d.server = exec.Command(exe, "demo", "server", "--dir", d.dir, "--app-id", fmt.Sprint(d.gh.AppID()), "--api-url", d.gh.URL())
	d.server.Stderr = d.log
	if _, err := d.server.StdinPipe(); err != nil { // open for as long as this process lives
		return fmt.Errorf("start the server: %w", err)
	}
	out, err := d.server.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err := d.server.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	found := make(chan string, 1)
	go greeting(out, found)
	ctx, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	select {
	case base := <-found:
		if base == "" {
			return errors.Join(errors.New("the server ended instead of starting: see why with -v"), d.end(syscall.SIGKILL))
		}
		d.client = &apiClient{base: base, http: newHTTPClient()}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("wait for the server: %w", ctx.Err()), d.end(syscall.SIGKILL))
	}
}

// end ends the server by a signal and waits for that; with SIGTERM it drains.
func (d *demo) end(s syscall.Signal) error {
	if d.server == nil {
		return nil
	}
	cmd := d.server
	d.server = nil
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the server: %w", err)
	}
	late := time.AfterFunc(demoWait, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil && s != syscall.SIGKILL {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}
