package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// sendFlags are the flags of `belay send`.
type sendFlags struct {
	file       string
	set        []string
	form       bool
	raw        bool
	delivery   string
	secret     string
	secretFile string
	source     string
	count      int
}

// sendCommand is `belay send`.
func (c *cli) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send EVENT",
		Short: "Sign and send a webhook, as GitHub does",
		Long: "Signs a webhook and sends it to belay, with a fresh delivery id and fresh times.\n\n" +
			"EVENT is an event of GitHub, with its action if it has one. Without --file the payload is a built-in one:\n  " +
			strings.Join(builtin(), "\n  ") + "\n\n" +
			"It names the first familiar of the configuration, and is signed with the configuration's first secret.",
		Example: "  belay send issues.labeled\n" +
			"  belay send issues.labeled --set issue.title='Add a test' --set issue.number=43\n" +
			"  belay send pull_request.synchronize --count 5\n" +
			"  belay send push --file payload.json --form\n" +
			"  belay send issues.labeled --source acme",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("belay send needs one event, such as issues.labeled")
			}
			return f.check()
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.send(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "payload `file` in JSON, - for standard input")
	flags.StringArrayVar(&f.set, "set", nil, "set `key=value` in the payload; keys are dotted, values JSON or text")
	flags.BoolVar(&f.raw, "raw", false, "send the bytes of --file as they are")
	flags.BoolVar(&f.form, "form", false, "send as a form's payload field")
	flags.StringVar(&f.delivery, "delivery", "", "delivery `id` (default: a fresh one)")
	flags.StringVar(&f.secret, "secret", "", "webhook `secret`; others on this host can see it, --secret-file they can not")
	flags.StringVar(&f.secretFile, "secret-file", "", "`file` with the webhook secret")
	flags.StringVar(&f.source, "source", task.DefaultSource, "`name` of the source: its address, and its secret of the configuration")
	flags.IntVar(&f.count, "count", 1, "how many to send, one after the other; with --delivery the same again")
	cmd.MarkFlagsMutuallyExclusive("secret", "secret-file")
	cmd.MarkFlagsMutuallyExclusive("raw", "set")
	return c.serverFlag(cmd)
}

func (f *sendFlags) check() error {
	switch {
	case f.raw && f.file == "":
		return usageError("--raw needs --file: only its bytes are sent as they are")
	case f.count < 1:
		return usageError("--count %d: write a number from 1 on", f.count)
	}
	return nil
}

// send sends what the command line says, and fails if one was not accepted.
func (c *cli) send(cmd *cobra.Command, event string, f *sendFlags) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	secret, err := f.webhookSecret(cfg)
	if err != nil {
		return err
	}
	a, err := c.dial()
	if err != nil {
		return err
	}
	given, err := f.read(c.in)
	if err != nil {
		return err
	}
	var body []byte // of one delivery id it stays the same, as when GitHub redelivers
	refused := 0
	for range f.count {
		h := hook{source: f.source, event: event, form: f.form, secret: secret, id: f.delivery}
		if h.id == "" {
			h.id = uuid.NewString()
		}
		if body == nil || f.delivery == "" {
			if body, err = f.body(event, given, newVocabulary(cfg, c.now())); err != nil {
				return err
			}
		}
		h.body = body
		ans, err := a.deliver(cmd.Context(), &h)
		if err != nil {
			return err
		}
		if err := c.printHook(a, &h, ans); err != nil {
			return err
		}
		if ans.status >= 300 {
			refused++
		}
	}
	if refused > 0 {
		return &codedError{code: exitError, text: fmt.Sprintf("%d of %d not accepted", refused, f.count)}
	}
	return nil
}

// webhookSecret is the secret of the flags, or of the configuration.
func (f *sendFlags) webhookSecret(cfg *config.Config) (redact.Secret, error) {
	if f.secret != "" {
		return redact.Secret(f.secret), nil
	}
	if f.secretFile != "" {
		s, err := config.ReadSecret(f.secretFile)
		if err != nil {
			return "", fmt.Errorf("read --secret-file: %w", err)
		}
		return s, nil
	}
	if f.source != task.DefaultSource {
		return f.sourceSecret(cfg)
	}
	err := cfg.UseSecretFile()
	if errors.Is(err, config.ErrNoSecret) {
		return "", fmt.Errorf("%w: start `belay serve` once in this folder, which makes one, or name it with --secret-file", err)
	}
	if err != nil {
		return "", err
	}
	return cfg.GitHub.WebhookSecrets[0], nil
}

// sourceSecret is the first secret of a source of the configuration.
func (f *sendFlags) sourceSecret(cfg *config.Config) (redact.Secret, error) {
	src, ok := cfg.SourceByName(f.source)
	if !ok || len(src.WebhookSecrets) == 0 {
		return "", unknownSource(cfg, f.source, "or name its secret with --secret-file")
	}
	return src.WebhookSecrets[0], nil
}

// unknownSource says which sources there are, and what to do beside naming one.
func unknownSource(cfg *config.Config, name, next string) error {
	var names []string
	for _, s := range cfg.AllSources() {
		names = append(names, s.Name)
	}
	return usageError("--source %s: the configuration has no such source: name one of %s%s", name, strings.Join(names, ", "), strings.TrimSuffix(", "+next, ", "))
}

// read reads the file of --file, nil when there is none.
func (f *sendFlags) read(in io.Reader) ([]byte, error) {
	switch f.file {
	case "":
		return nil, nil
	case "-":
		b, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read payload from standard input: %w", err)
		}
		return b, nil
	}
	b, err := os.ReadFile(f.file)
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	return b, nil
}

// body makes the JSON of one delivery.
func (f *sendFlags) body(event string, given []byte, v vocabulary) ([]byte, error) {
	if f.raw {
		return given, nil
	}
	tree, err := loadPayload(event, given, v)
	if err != nil {
		return nil, err
	}
	for _, assignment := range f.set {
		if err := setValue(tree, assignment); err != nil {
			return nil, err
		}
	}
	return encode(tree)
}
