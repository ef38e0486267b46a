package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	belay "github.com/belay-run/belay"
)

// build makes the belay binary that the process benchmarks run.
func build(ctx context.Context, o *options, dir string) (string, error) {
	bin := filepath.Join(dir, "belay")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/belay")
	cmd.Dir = o.repo
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build belay: %w: %s", err, out)
	}
	return bin, nil
}

// serve is a `belay serve` with one familiar, one worker and ports of its own.
type serve struct {
	cmd    *exec.Cmd
	public string
	admin  string
	ended  chan error // gets the process's end, once
	// ready is the time from the start of the process to the first /readyz
	// that answered 200.
	ready time.Duration
}

// serveTimeout bounds a start.
const serveTimeout = 2 * time.Minute

// startServe runs belay on dir, whose store may be there already.
func startServe(ctx context.Context, bin, dir string) (*serve, error) {
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	conf, err := serveConfig(dir, ports)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "belay.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	s := &serve{cmd: exec.CommandContext(ctx, bin, "serve", "--config", conf), public: ports[0], admin: ports[1]}
	s.cmd.Stderr, s.cmd.Stdout = log, log
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start belay: %w", err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	if err := s.awaitReady(ctx, began); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):]), s.kill())
	}
	return s, nil
}

func (s *serve) awaitReady(ctx context.Context, began time.Time) error {
	for ctx.Err() == nil && time.Since(began) < serveTimeout {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("ask for readiness: %w", err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				s.ready = time.Since(began)
				return nil
			}
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("belay ended before it was ready: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("belay is not ready after %s", time.Since(began).Round(time.Second))
}

// stop asks for a drain and waits.
func (s *serve) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop belay: %w", err)
	}
	if err := <-s.ended; err != nil {
		return fmt.Errorf("stop belay: %w", err)
	}
	return nil
}

// kill ends the process as a crash would.
func (s *serve) kill() error {
	_ = s.cmd.Process.Kill()
	var exit *exec.ExitError
	if err := <-s.ended; err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("kill belay: %w", err)
	}
	return nil
}

// rss is the resident memory in MiB.
func (s *serve) rss() float64 { return float64(statusKB(s.cmd.Process.Pid, "VmRSS:")) / 1024 }

// clockTicks is the unit of /proc's times on Linux, whatever the machine.
const clockTicks = 100

// cpu is the processor time used so far.
func (s *serve) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, errors.New("read processor time: stat is short")
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / clockTicks, nil
}

// serveConfig writes the configuration of a process; the store is dir/belay,
// as openStore has it.
func serveConfig(dir string, ports []string) (string, error) {
	nats := strings.Replace(belay.NATSConf, "port: 4222", "port: -1", 1)
	nats = strings.Replace(nats, "http: 127.0.0.1:8222", "http: 127.0.0.1:-1", 1)
	text := fmt.Sprintf("[server]\nlisten = %q\nadmin_listen = %q\n[storage]\ndir = %q\n[nats]\nconfig = %q\n"+
		"[worker]\nconcurrency = 1\n[[familiars]]\nid = \"cody\"\nbot_username = \"cody[bot]\"\ntrigger_labels = [\"cody\"]\n",
		ports[0], ports[1], filepath.Join(dir, "belay"), filepath.Join(dir, "serve-nats.conf"))
	conf := filepath.Join(dir, "belay.toml")
	err := os.WriteFile(filepath.Join(dir, "serve-nats.conf"), []byte(nats), 0o600)
	if err == nil {
		err = os.WriteFile(conf, []byte(text), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return conf, nil
}

// freePorts finds addresses of loopback that nobody listens on.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var out []string
	var lc net.ListenConfig
	for range n {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}
