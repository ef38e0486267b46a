package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// soakReady is how long a start may take, also after a kill.
const soakReady = time.Minute

// soakSecret signs the soak's webhooks.
const soakSecret = redact.Secret("the secret of a soak that lives as long as its folder")

// soakServer is `belay serve` as a process of its own, on random ports.
type soakServer struct {
	program string
	dir     string // with its configuration, data and log
	role    string // "" for all
	cmd     *exec.Cmd
	log     *os.File
	client  atomic.Pointer[apiClient]
}

// newServer writes the configuration of a process, nats being its [nats];
// start starts it.
func (s *soak) newServer(name, role, nats string) (*soakServer, error) {
	command, err := json.Marshal([]string{
		s.program, "bench", "task", "--notes", s.notes(), "--locks", filepath.Join(s.dir, "locks"), "--result", "{result}",
	})
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	p := &soakServer{program: s.program, dir: filepath.Join(s.dir, name), role: role}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of a process: %w", err)
	}
	text := fmt.Sprintf(`
[server]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
[storage]
dir = %q
[nats]
%s
[github]
webhook_secrets = [%q]
[worker]
name = %q
concurrency = %d
max_retries = 50
[[familiars]]
id = "soak"
bot_username = "soak[bot]"
trigger_labels = ["soak"]
command = %s
callback = "soak"
[[callbacks]]
name = "soak"
url = %q
secrets = [%q]
allow_private = true
`, filepath.Join(p.dir, "data"), nats, soakSecret.Reveal(), name, s.o.concurrency, command, s.receiver.url, soakKey.Reveal())
	if err := os.WriteFile(p.config(), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	s.servers = append(s.servers, p)
	return p, nil
}

func (s *soakServer) config() string { return filepath.Join(s.dir, "belay.toml") }

// start starts the process and waits until it is ready.
func (s *soakServer) start(ctx context.Context) error {
	var err error
	if s.log == nil {
		if s.log, err = os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("open the server's log: %w", err)
		}
	}
	args := []string{"serve", "--config", s.config(), "--log-level", "warn"}
	if s.role != "" {
		args = append(args, "--role", s.role)
	}
	s.cmd = exec.Command(s.program, args...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	found := make(chan string, 1)
	go greeting(out, found)
	ctx, cancel := context.WithTimeout(ctx, soakReady)
	defer cancel()
	select {
	case base, ready := <-found:
		if !ready {
			return errors.Join(fmt.Errorf("the server ended instead of starting: %s", s.lastWords()), s.cmd.Wait())
		}
		s.client.Store(&apiClient{http: newHTTPClient(), base: base})
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("wait for the server: %w", ctx.Err()), s.kill())
	}
}

// lastWords is the end of the server's log.
func (s *soakServer) lastWords() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data[max(0, len(data)-1000):]))
}

// greeting finds the address in what serve prints once it is ready; a process
// that takes no webhooks has none, and prints where its metrics are alone.
func greeting(out io.Reader, found chan<- string) {
	sc := bufio.NewScanner(out)
	base := ""
	for sc.Scan() {
		name, value, _ := strings.Cut(strings.TrimSpace(sc.Text()), " ")
		if name == "webhook" {
			base = strings.TrimSuffix(strings.TrimSpace(value), "/webhook")
		}
		if name == "metrics" {
			found <- base
			break
		}
	}
	close(found)
	_, _ = io.Copy(io.Discard, out)
}

// kill ends the process with SIGKILL, as a power cut would but for the disk.
func (s *soakServer) kill() error {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the server: %w", err)
	}
	_ = s.cmd.Wait() // it says that it was killed
	return nil
}

// soakItem is a task of the list.
type soakItem struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (t soakItem) open() bool { return t.Status == "queued" || t.Status == "running" }

// list reads the whole list.
func (s *soakServer) list(ctx context.Context) ([]soakItem, error) {
	var all []soakItem
	q := url.Values{"limit": {"1000"}}
	for {
		ans, err := s.client.Load().get(ctx, tasksPath, q)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tasks      []soakItem `json:"tasks"`
			NextCursor string     `json:"nextCursor"`
		}
		if err := json.Unmarshal(ans.body, &page); err != nil {
			return nil, fmt.Errorf("read the list: %w", err)
		}
		all = append(all, page.Tasks...)
		if page.NextCursor == "" {
			return all, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}
