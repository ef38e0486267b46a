package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
)

// cli is what the commands share: the world outside, and the global flags.
type cli struct {
	in      io.Reader
	out     io.Writer
	err     io.Writer
	environ []string
	now     func() time.Time
	client  *http.Client
	poll    time.Duration // between looks at something that changes

	config string // --config
	server string // --server
	output string // -o

	understood bool // the command line was, and a command runs
}

// run runs the process's command line and returns its exit code. The first
// signal cancels the command's context, a second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	c := &cli{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(), now: time.Now,
		client: newHTTPClient(), poll: time.Second,
	}
	return c.execute(ctx, os.Args[1:])
}

// execute runs a command line, prints its error and returns the exit code.
func (c *cli) execute(ctx context.Context, args []string) int {
	root := c.rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(c.err, "belay: "+strings.ReplaceAll(safeText(text), "\n", "\nbelay: "))
	}
	if !c.understood {
		fmt.Fprintln(c.err, "belay: `belay help` lists the commands")
		return exitUsage
	}
	return exitCode(err)
}

// rootCommand is the tree of commands.
func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "belay",
		Short: "Turns every GitHub webhook into exactly one durable task, and runs it",
		Long: "belay turns every GitHub webhook into exactly one durable task, runs it, and shows the outcome.\n\n" +
			"Exit codes: 0 all well, 1 it did not work, 2 the command line or the configuration is wrong.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&c.config, "config", "", "configuration `file` (default: $BELAY_CONFIG, else ./belay.toml if there is one)")
	flags.StringVarP(&c.output, "output", "o", outputTable, "table or json")
	root.AddCommand(c.commands()...)
	c.watch(root)
	return root
}

// watch notes when a command runs: an error before that is one of the command
// line.
func (c *cli) watch(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if c.output != outputTable && c.output != outputJSON {
				return fmt.Errorf("-o %s: write table or json", c.output)
			}
			c.understood = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		c.watch(sub)
	}
}

// commands lists the subcommands; each has a file of its name.
func (c *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		c.serveCommand(),
		c.demoCommand(),
		c.benchCommand(),
		c.sendCommand(),
		c.tasksCommand(),
		c.deliveriesCommand(),
		c.explainCommand(),
		c.redeliverCommand(),
		c.outboxCommand(),
		c.usageCommand(),
		c.auditCommand(),
		c.routingCommand(),
		c.operatorCommand(),
		c.pauseCommand(),
		c.resumeCommand(),
		c.natsCommand(),
		c.appCommand(),
		c.tokenCommand(),
		c.doctorCommand(),
		c.healthcheckCommand(),
		c.streamsCommand(),
		c.backupCommand(),
		c.restoreCommand(),
		c.configCommand(),
		c.versionCommand(),
	}
}

// group is a command that only has subcommands.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	var names []string
	for _, s := range sub {
		names = append(names, s.Name())
	}
	g := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("%s needs a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	g.AddCommand(sub...)
	return g
}

// serverFlag adds --server to a client of the API.
func (c *cli) serverFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.server, "server", "", "`address` of belay (default: listen of [server] in the configuration)")
	return cmd
}

// loadConfig loads the configuration that the command line names.
func (c *cli) loadConfig() (*config.Config, error) {
	cfg, err := config.Load(config.Find(c.config, c.environ), c.environ)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// getenv returns a variable of the environment, "" when it is not set.
func (c *cli) getenv(name string) string {
	for i := len(c.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(c.environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// exitCode maps an error to the exit code.
func exitCode(err error) int {
	var coded *codedError
	var problems *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problems), errors.Is(err, config.ErrUnreadable):
		return exitUsage
	}
	return exitError
}

// The exit codes of every command.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// codedError ends a command with an exit code. Without a text, all that is to
// be said was printed.
type codedError struct {
	code int
	text string
}

// Error returns the text.
func (e *codedError) Error() string { return e.text }

// usageError is an error of the command line.
func usageError(format string, args ...any) error {
	return &codedError{code: exitUsage, text: fmt.Sprintf(format, args...)}
}
