package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/cmd/internal/doctor"
)

// natsExamples are what people look at most, with what it shows.
var natsExamples = [][2]string{
	{"stream ls", "all streams"},
	{"stream info WEBHOOKS", "the log of deliveries"},
	{"stream subjects WEBHOOKS", "deliveries by installation, repository, disposition and kind"},
	{"consumer info WEBHOOKS tasks", "the queue of tasks"},
	{"consumer info WEBHOOKS admit", "deliveries that wait for admission"},
	{"kv ls STATE", "the keys of all records"},
	{"kv get STATE task.INSTALLATION.ID --raw", "the record of one task"},
	{"sub 'event.>'", "what happens, as it happens"},
}

// natsCommand is `belay nats`.
func (c *cli) natsCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:   "nats [-- ARGS]",
		Short: "Print the nats command line that looks into belay's streams",
		Long: "Prints a command line of the nats CLI that connects to belay's NATS server, with examples.\n" +
			"With arguments it prints that one line only, for a shell to run:\n\n" +
			"  eval \"$(belay nats -- stream ls)\"",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			line, err := natsLine(cfg, reveal)
			if err != nil {
				return err
			}
			return c.printNATS(line, args)
		},
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "write the password itself into the line")
	return cmd
}

func (c *cli) printNATS(line string, args []string) error {
	if len(args) > 0 {
		for _, a := range args {
			line += " " + shellQuote(a)
		}
		_, err := fmt.Fprintln(c.out, line)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", line)
	for _, e := range natsExamples {
		fmt.Fprintf(&b, "# %s\n%s %s\n", e[1], line, e[0])
	}
	_, err := fmt.Fprint(c.out, b.String())
	return err
}

// natsLine is the command line up to the subcommand.
func natsLine(cfg *config.Config, reveal bool) (string, error) {
	n := cfg.NATS
	words := []string{"nats", "--server", n.URL}
	if !cfg.Embedded() {
		words[2] = shellQuote(strings.Join(cfg.NATSURLs(), ","))
		for _, f := range [][2]string{{"--creds", n.CredsFile}, {"--tlsca", n.TLSCA}, {"--tlscert", n.TLSCert}, {"--tlskey", n.TLSKey}} {
			if f[1] != "" {
				words = append(words, f[0], shellQuote(f[1]))
			}
		}
		return strings.Join(words, " "), nil
	}
	conf, err := doctor.EmbeddedNATSConf(cfg)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cfg.Storage.Dir, doctor.PasswordFile)
	password := `"$(cat ` + shellQuote(path) + `)"`
	if reveal {
		s, err := config.ReadSecret(path)
		if err != nil {
			return "", fmt.Errorf("read the password of the embedded server: %w: start `belay serve` once, which makes it", err)
		}
		password = shellQuote(s.Reveal())
	}
	words[2] = shellQuote(conf.URL())
	return strings.Join(append(words, "--user", doctor.NATSUser, "--password", password), " "), nil
}

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@,=+-]+$`)

// shellQuote quotes a word for a POSIX shell where it has to be.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
