package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// childVar names the file with the job of a process that tests start.
const childVar = "BELAY_TEST_CHILD"

// job says what a child process runs: belay, or (NATS) a nats-server.
type job struct {
	Dir         string
	NATS        bool
	Port        string // of the nats-server
	URL         string // of an external nats-server, for belay
	Name        string
	Script      string
	Concurrency int
	MaxRetries  int
	Drain       time.Duration
	Beat        time.Duration
	// AppID, KeyFile and APIURL are an App's, on a stand-in of GitHub.
	AppID           int64
	KeyFile, APIURL string
	// CallbackURL is told of the issues of operators; "" takes no requests of
	// theirs.
	CallbackURL string
	// Role is one part of a fleet, "" all of it; a fleet's tasks call TasksURL.
	Role, TasksURL string
	// Retain is the time between passes of retention, Lease between renewals.
	Retain, Lease time.Duration
	// Ahead is how far the process's clock is.
	Ahead time.Duration
	// Point is where the process kills itself with SIGKILL, once.
	Point string
}

// childMain runs a child and ends the process; it returns in the tests' own.
func childMain() {
	path := os.Getenv(childVar)
	if path == "" {
		return
	}
	if err := runChild(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if j.NATS {
		return runNATS(ctx, j)
	}
	a, err := New(j.options())
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready", a.addr.public, a.addr.admin)
	<-ctx.Done()
	return a.Stop(context.Background())
}

func runNATS(ctx context.Context, j job) error {
	conf := filepath.Join(j.Dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\nmax_payload: 8MB\njetstream { sync_interval: always }\n", j.Port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	ns, err := natsserver.Start(ctx, natsserver.Options{ConfigFile: conf, Dir: filepath.Join(j.Dir, "nats")})
	if err != nil {
		return err
	}
	fmt.Println("ready", ns.ClientURL())
	<-ctx.Done()
	return ns.Shutdown(context.Background())
}

// options are those of the app that the job describes.
func (j job) options() Options {
	cfg := config.Default(filepath.Join(j.Dir, "data"))
	cfg.Server.Listen, cfg.Server.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.GitHub.WebhookSecrets = []redact.Secret{secret}
	cfg.NATS.URL, cfg.Worker.Name = j.URL, j.Name
	cfg.Worker.Concurrency, cfg.Worker.MaxRetries, cfg.Worker.DrainTimeout = j.Concurrency, j.MaxRetries, j.Drain
	cfg.Review.PullRequest = true
	f := &cfg.Familiars[0]
	f.TriggerLabels = []string{"bug"}
	if j.Script != "" {
		f.Command = []string{"/bin/sh", "-c", j.Script, "task", "{brief}", "{result}", j.Dir}
	}
	if j.URL != "" { // each process has its own workspaces
		cfg.Worker.WorkspaceDir = filepath.Join(j.Dir, "workspaces-"+string(consumers.NewBoot()))
	}
	if j.AppID != 0 {
		cfg.GitHub.AppID, cfg.GitHub.PrivateKeyFile, cfg.GitHub.APIURL = j.AppID, j.KeyFile, j.APIURL
	}
	o := Options{
		GitHubSleep: hurry,
		Config:      cfg, Logger: NewLogger(os.Stderr, slog.LevelDebug, time.Now), Version: "test", NATSListen: natsserver.ListenNone,
		BeatEvery: j.Beat, Backoff: func(int) time.Duration { return 0 },
	}
	if j.CallbackURL != "" {
		cfg.Operator.Repo, cfg.Operator.Callback = "acme/api", "ci"
		cfg.Operator.Keys = []config.OperatorKey{{ID: "worker", Secret: deskSecret}}
		cfg.Callbacks = []config.Callback{{
			Name: "ci", URL: j.CallbackURL, Secrets: []redact.Secret{callbackSecret()}, AllowPrivate: true, Timeout: 10 * time.Second,
		}}
		o.Now = func() time.Time { return time.Now().Add(j.Ahead) }
	}
	if j.Role != "" {
		cfg.Server.Role = j.Role
	}
	if j.TasksURL != "" {
		cfg.Callbacks = append(cfg.Callbacks, config.Callback{
			Name: "tasks", URL: j.TasksURL, Secrets: []redact.Secret{callbackSecret()}, AllowPrivate: true, Timeout: 10 * time.Second,
		})
		f.Callback = "tasks"
	}
	o.RetainEvery, o.LeaseEvery = j.Retain, j.Lease
	j.arm(&o)
	return o
}

// arm makes the process kill itself at the job's point: a step of the worker
// (`claimed`), or `before|after <op> <prefix of the key>` of the stores.
func (j job) arm(o *Options) {
	var done atomic.Bool
	die := func(point string) {
		if j.Point != "" && strings.HasPrefix(point, j.Point) && done.CompareAndSwap(false, true) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	posted := func(operator.RequestID) { die("posted") }
	o.IssueHooks, o.SearchFirst = &consumers.IssueHooks{Posted: posted}, 10*time.Millisecond
	step := func(name string) func(task.ID) { return func(task.ID) { die(name) } }
	o.Hooks = &consumers.Hooks{
		Picked: step("picked"), BeforeClaim: step("claiming"), Claimed: step("claimed"), Pinned: step("pinned"),
		BeforeEnd: step("ending"), Ended: step("ended"),
	}
	o.StoreHooks = &kv.Hooks{
		Before: func(_ context.Context, op, key string) error {
			die("before " + op + " " + key)
			// Between the record and its sending is a point of its own: the
			// relay's claim does not come before the death.
			if strings.HasPrefix(j.Point, "after create outbox.") && op == "update" && strings.HasPrefix(key, kv.PrefixOutbox+".") {
				select {}
			}
			return nil
		},
		After: func(_ context.Context, op, key string) error { die("after " + op + " " + key); return nil },
	}
}

// child is a process that a test started.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	addr  string // of the public listener, or the nats-server
	admin string
	done  chan struct{}
}

// spawn starts a child and waits until it is ready.
func spawn(t *testing.T, j job) *child {
	t.Helper()
	data, err := json.Marshal(j)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "job.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	log, err := os.OpenFile(filepath.Join(j.Dir, "child.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	c := &child{t: t, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childVar+"="+path)
	c.cmd.Stderr = log
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if addr, ok := strings.CutPrefix(sc.Text(), "ready "); ok {
			c.addr, c.admin, _ = strings.Cut(addr, " ")
			break
		}
	}
	go func() { _ = c.cmd.Wait(); close(c.done) }()
	if c.addr == "" && c.admin == "" {
		<-c.done
		all, _ := os.ReadFile(log.Name())
		require.Fail(t, "child did not start", "%s", all)
	}
	return c
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(c.t, err)
	}
}

func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	c.wait()
}

// wait waits for the process's end.
func (c *child) wait() {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		require.Fail(c.t, "child did not end")
	}
}

// rigOf makes a rig that speaks to a child instead of an App of this process.
func rigOf(t *testing.T, dir string) *rig {
	r := newRig(t)
	r.dir = dir
	return r
}

func (r *rig) speakTo(c *child) {
	r.web.CloseIdleConnections()
	r.app = &App{addr: addresses{public: c.addr}}
}
