package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is another process of this binary: load and server must not share a
// heap, a scheduler or a peak of memory. It is told what to do by one JSON
// argument, says what it has to say as JSON lines, and ends when its standard
// input does.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

func startChild(ctx context.Context, name string, config any) (*child, error) {
	arg, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, exe, name, string(arg))}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.out = json.NewDecoder(bufio.NewReader(out))
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// read waits for the child's next line.
func (c *child) read(v any) error {
	if err := c.out.Decode(v); err != nil {
		return errors.Join(fmt.Errorf("read from child: %w", err), c.cmd.Wait())
	}
	return nil
}

// stop ends the child and waits until it is gone; last, if not nil, gets the
// line that it says before.
func (c *child) stop(last any) error {
	_ = c.in.Close()
	var err error
	if last != nil {
		err = c.out.Decode(last)
	}
	return errors.Join(err, c.cmd.Wait())
}

// kill ends a child that is of no use any more.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// told reads what a child is told.
func told[T any](args []string) (T, error) {
	var v T
	if len(args) != 1 {
		return v, errors.New("only a benchmark starts this")
	}
	if err := json.Unmarshal([]byte(args[0]), &v); err != nil {
		return v, fmt.Errorf("read configuration: %w", err)
	}
	return v, nil
}

// say writes a line to the parent.
func say(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// untilTold waits until the parent wants the child to end.
func untilTold() { _, _ = io.Copy(io.Discard, os.Stdin) }

// usage is what a process has used.
type usage struct {
	PeakRSS int64   `json:"peak_rss_bytes"`
	CPU     float64 `json:"cpu_seconds"`
}

func ownUsage() usage {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return usage{
		PeakRSS: statusKB(os.Getpid(), "VmHWM:") << 10,
		CPU:     time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds(),
	}
}

// since is the use after before; the peak stays what it is.
func (u usage) since(before usage) usage {
	return usage{PeakRSS: u.PeakRSS, CPU: u.CPU - before.CPU}
}

// statusKB is a field of /proc/<pid>/status in KiB, 0 if there is none.
func statusKB(pid int, field string) int64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n
		}
	}
	return 0
}

// profiled runs until the returned function is called; file "" profiles nothing.
func profiled(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("make profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start profile: %w", err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}
