package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// redisConfig is Debian's: no append-only file, snapshots every now and then.
const redisConfig = "/etc/redis/redis.conf"

// startRedis runs redis-server in dir on a free port.
func startRedis(ctx context.Context, dir string) (addr string, stop stopFunc, err error) {
	host, port, err := freePort(ctx)
	if err != nil {
		return "", nil, err
	}
	args := []string{"--bind", host, "--port", port, "--dir", dir, "--daemonize", "no", "--logfile", "", "--pidfile", filepath.Join(dir, "redis.pid")}
	if f, err := os.Open(redisConfig); err == nil {
		_ = f.Close()
		args = append([]string{redisConfig}, args...)
	}
	cmd := exec.CommandContext(ctx, "redis-server", args...)
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start redis-server: %w; next: ./run installs it", err)
	}
	addr = net.JoinHostPort(host, port)
	return addr, stopper(cmd), await(ctx, cmd, func() error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// postgresConns is how many connections River shares, found by trying.
const postgresConns = 16

// startPostgres makes a cluster in dir with PostgreSQL's own defaults and runs
// it on a free port, as the user postgres where root asks.
func startPostgres(ctx context.Context, dir string) (url string, stop stopFunc, err error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(bins) == 0 {
		return "", nil, errors.New("find postgres: there is none; next: ./run installs it")
	}
	bin := filepath.Dir(slices.Max(bins))
	as, err := serverUser(dir)
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "cluster")
	init := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "bench", "-A", "trust", "--no-locale", "-E", "UTF8")
	init.SysProcAttr, init.Dir = as, dir
	if out, err := init.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	host, port, err := freePort(ctx)
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-D", data, "-h", host, "-p", port, "-k", dir)
	cmd.SysProcAttr, cmd.Dir = as, dir
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start postgres: %w", err)
	}
	// More connections cost more processor than shared commits save.
	url = fmt.Sprintf("postgres://bench@%s/postgres?pool_max_conns=%d", net.JoinHostPort(host, port), postgresConns)
	// It listens before it takes connections.
	return url, stopper(cmd), await(ctx, cmd, func() error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", host, "-p", port).Run()
	})
}

// serverUser is whom postgres runs as, and gives dir to them: it refuses root.
func serverUser(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find the user of postgres: %w", err)
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if err := errors.Join(uerr, gerr, os.Chown(dir, uid, gid)); err != nil {
		return nil, fmt.Errorf("give the folder to postgres: %w", err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func freePort(ctx context.Context) (host, port string, err error) {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return "", "", err
	}
	return net.SplitHostPort(ports[0])
}

// stopFunc ends a server and returns the processor time that it and its own
// processes have used.
type stopFunc func() (cpu time.Duration, err error)

// stopper ends a server as SIGINT does: postgres then ends its sessions.
func stopper(cmd *exec.Cmd) stopFunc {
	return func() (time.Duration, error) {
		_ = cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			return 0, fmt.Errorf("stop %s: %w", filepath.Base(cmd.Path), err)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
}

// await waits until a server is there, and ends it if it does not come.
func await(ctx context.Context, cmd *exec.Cmd, there func() error) error {
	var err error
	for began := time.Now(); time.Since(began) < 30*time.Second && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if err = there(); err == nil {
			return nil
		}
	}
	_, serr := stopper(cmd)()
	return errors.Join(fmt.Errorf("wait for %s: %w", filepath.Base(cmd.Path), err), serr)
}
