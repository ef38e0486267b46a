package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is one benchmark, or one of the processes that a benchmark starts.
type command func(ctx context.Context, args []string) error

func commands() map[string]command {
	return map[string]command{
		"accept": acceptCommand, "tasks": tasksCommand, "idle": idleCommand, "start": startCommand,
		"latency": latencyCommand, "memory": memoryCommand, "scale": scaleCommand, "cluster": clusterCommand, "all": allCommand,
		// The processes that the above start, told what to do on the command line.
		childServer: serverChild, childLoad: loadChild, childPublish: publishChild,
		childLife: lifeChild, childBelay: belayChild, childMemory: memoryChild, childFill: fillChild, childOpen: openChild,
		childNode: nodeChild,
	}
}

// options are the flags that all benchmarks have.
type options struct {
	dir     string
	json    string
	repo    string
	rounds  int
	quick   bool
	profile string
	only    string
}

// parse reads a benchmark's flags and says on what it runs. more adds flags.
func parse(name string, args []string, more func(*flag.FlagSet)) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&o.dir, "dir", os.TempDir(), "folder for the stores, on the disk to be measured")
	fs.StringVar(&o.json, "json", "", "file that gets every single measurement as JSON")
	fs.StringVar(&o.repo, "repo", filepath.Join("..", ".."), "checkout of belay, from which its binary is built")
	fs.IntVar(&o.rounds, "rounds", 3, "interleaved rounds; medians and spreads are over them")
	fs.BoolVar(&o.quick, "quick", false, "prove that it runs, measure next to nothing")
	fs.StringVar(&o.profile, "profile", "", "folder that gets CPU profiles of belay's processes")
	fs.StringVar(&o.only, "only", "", "comma-separated variants to run; all if empty")
	if more != nil {
		more(fs)
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if o.quick {
		o.rounds = 1
	}
	if onTmpfs(o.dir) {
		fmt.Fprintf(os.Stderr, "warning: %s is in memory (tmpfs): a sync costs nothing there, so synced numbers mean nothing; use --dir\n", o.dir)
	}
	fmt.Printf("%s: %d rounds, %s, GOMAXPROCS %d, load %s before\n", name, o.rounds, runtime.Version(), runtime.GOMAXPROCS(0), loadAverage())
	return o, nil
}

// wants reports whether a variant was asked for.
func (o *options) wants(variant string) bool {
	if o.only == "" {
		return true
	}
	for v := range strings.SplitSeq(o.only, ",") {
		if v == variant {
			return true
		}
	}
	return false
}

// profileFile is where a process's profile goes, "" for none.
func (o *options) profileFile(name string) string {
	if o.profile == "" {
		return ""
	}
	return filepath.Join(o.profile, name+".pprof")
}

// temp makes a folder for one store; done removes it.
func (o *options) temp(name string) (dir string, done func(), err error) {
	dir, err = os.MkdirTemp(o.dir, "belay-bench-"+name+"-")
	if err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// tmpfsMagic is the type that statfs gives for a file system in memory.
const tmpfsMagic = 0x01021994

func onTmpfs(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Type == tmpfsMagic
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// allCommand runs every benchmark in order.
func allCommand(ctx context.Context, args []string) error {
	began := time.Now()
	for _, name := range []string{"accept", "idle", "start", "latency", "memory", "scale", "tasks"} {
		err := commands()[name](ctx, args)
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println()
	}
	fmt.Printf("all took %s\n", time.Since(began).Round(time.Second))
	return nil
}
