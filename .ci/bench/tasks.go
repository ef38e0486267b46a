package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/belay-run/belay/consumers/executor"
)

// The variants of the benchmark tasks.
const (
	lifeBelay       = "belay"             // nats-server's default interval of syncs
	lifeBelayAlways = "belay-always"      // every message synced, as `belay serve` has it
	lifeAsynq       = "asynq"             // redis-server as Debian configures it
	lifeRiver       = "river"             // PostgreSQL at its default commit
	lifeSQLite      = "sqlite"            // one writer, WAL, synchronous NORMAL, a transaction a step
	lifeGrouped     = "sqlite-group"      // the same with the steps of all callers in one transaction
	lifeGroupedFull = "sqlite-group-full" // that with synchronous FULL
)

// lives are the variants in the order of a round, and whether each syncs what
// it acknowledges: those get fewer tasks.
var lives = []struct {
	name   string
	synced bool
}{
	{lifeBelay, false}, {lifeAsynq, false}, {lifeSQLite, false}, {lifeGrouped, false},
	{lifeBelayAlways, true}, {lifeRiver, true}, {lifeGroupedFull, true},
}

// slots is how many tasks may run at once.
const slots = 64

// lived is one measurement: tasks from enqueue to their last state.
type lived struct {
	Variant string  `json:"variant"`
	Round   int     `json:"round"`
	Tasks   int     `json:"tasks"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"tasks_per_second"`
	Load    string  `json:"load_average"`
	// ServerCPU is what redis-server or postgres used, their start included.
	ServerCPU float64 `json:"server_cpu_seconds"`
	usage
}

func tasksCommand(ctx context.Context, args []string) error {
	var free, synced int
	o, err := parse("tasks", args, func(fs *flag.FlagSet) {
		fs.IntVar(&free, "tasks", 20_000, "tasks of a measurement")
		fs.IntVar(&synced, "synced-tasks", 4000, "tasks of a measurement whose variant syncs")
	})
	if err != nil {
		return err
	}
	if o.quick {
		free, synced = 100, 50
	}
	var all []lived
	for round := range o.rounds {
		for _, l := range lives {
			if !o.wants(l.name) {
				continue
			}
			n := free
			if l.synced {
				n = synced
			}
			m, err := measureLife(ctx, o, l.name, n, round)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			fmt.Printf("  round %d  %-17s %7.0f tasks/s  load %s\n", round+1, l.name, m.Rate, m.Load)
			all = append(all, m)
		}
	}
	reportLives(all)
	return o.writeJSON("tasks", all)
}

// lifeJob tells the process under measurement what to run.
type lifeJob struct {
	Variant string
	Dir     string
	Server  string // of redis or postgres
	Tasks   int
	Profile string
}

const childLife = "child-life"

func measureLife(ctx context.Context, o *options, variant string, n, round int) (lived, error) {
	m := lived{Variant: variant, Round: round, Tasks: n, Load: loadAverage()}
	dir, done, err := o.temp("tasks")
	if err != nil {
		return m, err
	}
	defer done()
	job := lifeJob{Variant: variant, Dir: dir, Tasks: n, Profile: o.profileFile(fmt.Sprintf("tasks-%s-%d", variant, round))}
	stop := stopFunc(func() (time.Duration, error) { return 0, nil })
	switch variant {
	case lifeAsynq:
		job.Server, stop, err = startRedis(ctx, dir)
	case lifeRiver:
		job.Server, stop, err = startPostgres(ctx, dir)
	}
	if err != nil {
		return m, err
	}
	c, err := startChild(ctx, childLife, job)
	if err == nil {
		if err = c.read(&m); err == nil {
			err = c.stop(nil)
		}
	}
	m.Rate = float64(n) / m.Seconds
	server, serr := stop()
	m.ServerCPU = server.Seconds()
	return m, errors.Join(err, serr)
}

// life is one way to keep tasks: all runs those from..to-1, each from its
// enqueue by one of the producers to its last state, and returns when that is
// stored of all that were ever enqueued.
type life interface {
	all(ctx context.Context, from, to int) error
	close() error
}

func openLife(ctx context.Context, job lifeJob) (life, error) {
	switch job.Variant {
	case lifeBelay:
		return openBelayLife(ctx, job.Dir, syncDefault)
	case lifeBelayAlways:
		return openBelayLife(ctx, job.Dir, syncAlways)
	case lifeAsynq:
		return openAsynqLife(job.Server)
	case lifeRiver:
		return openRiverLife(ctx, job.Server)
	case lifeSQLite:
		return openSQLiteLife(ctx, job.Dir, "NORMAL", false)
	case lifeGrouped:
		return openSQLiteLife(ctx, job.Dir, "NORMAL", true)
	case lifeGroupedFull:
		return openSQLiteLife(ctx, job.Dir, "FULL", true)
	}
	return nil, fmt.Errorf("no variant %q", job.Variant)
}

func lifeChild(ctx context.Context, args []string) error {
	job, err := told[lifeJob](args)
	if err != nil {
		return err
	}
	l, err := openLife(ctx, job)
	if err != nil {
		return err
	}
	stop, err := profiled(job.Profile)
	if err != nil {
		return errors.Join(err, l.close())
	}
	// Connections, caches and elections are no task's cost.
	err = l.all(ctx, 0, slots)
	before, began := ownUsage(), time.Now()
	if err == nil {
		err = l.all(ctx, slots, slots+job.Tasks)
	}
	m := lived{
		Variant: job.Variant, Tasks: job.Tasks, Seconds: time.Since(began).Seconds(), Load: loadAverage(),
		usage: ownUsage().since(before),
	}
	if err = errors.Join(err, stop(), l.close()); err != nil {
		return err
	}
	return say(m)
}

// belayLife is the whole stack in one process, as it is for a single machine.
type belayLife struct{ *stack }

func openBelayLife(ctx context.Context, dir, syncInterval string) (life, error) {
	s, err := startStack(ctx, dir, syncInterval, slots, func(executor.Job) {})
	if err != nil {
		return nil, err
	}
	return belayLife{s}, nil
}

func (b belayLife) all(ctx context.Context, from, to int) error {
	return enqueueAll(ctx, b.stack, from, to)
}

func reportLives(all []lived) {
	of := func(v string, number func(lived) float64) series {
		return pick(all, func(m lived) bool { return m.Variant == v }, number)
	}
	rate := func(m lived) float64 { return m.Rate }
	rows := [][]string{{"variant", "tasks/s", "CPU µs a task", "peak RSS MiB", "belay / this", "belay-always / this"}}
	for _, l := range lives {
		if len(of(l.name, rate)) == 0 {
			continue
		}
		rows = append(rows, []string{
			l.name, of(l.name, rate).String(),
			of(l.name, func(m lived) float64 { return (m.CPU + m.ServerCPU) * 1e6 / float64(m.Tasks) }).String(),
			of(l.name, func(m lived) float64 { return float64(m.PeakRSS) / (1 << 20) }).String(),
			of(lifeBelay, rate).over(of(l.name, rate)).String(),
			of(lifeBelayAlways, rate).over(of(l.name, rate)).String(),
		})
	}
	fmt.Fprintln(os.Stdout, "medians [lowest–highest round]; CPU with that of redis-server and postgres, memory without")
	table(rows)
	target("belay / asynq", of(lifeBelay, rate).over(of(lifeAsynq, rate)), .7, true)
	target("belay / SQLite claim loop", of(lifeBelay, rate).over(of(lifeSQLite, rate)), 2, true)
	target("belay-always / River", of(lifeBelayAlways, rate).over(of(lifeRiver, rate)), .4, true)
}
