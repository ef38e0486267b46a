package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/belay-run/belay/kv/operator"
)

const operatorPath = "/api/operator/tasks"

// operatorCommand is `belay operator`.
func (c *cli) operatorCommand() *cobra.Command {
	g := group("operator", "Propose an issue, confirm it, and see what became of it",
		c.proposeCommand(), c.requestCommand(), c.confirmCommand(), c.reconcileCommand(), c.releaseCommand(),
	)
	g.Long = `An operator task is a proposal that, once confirmed, creates at most one GitHub
issue. It belongs to one operator in one conversation: nobody else sees it.

Requests are signed with a key of [operator] in the server's configuration: the
one of --key and --secret-file, or of $` + keyVar + ` and $` + secretVar + `, or without
--server that of the configuration file. Who you are is --as and
--conversation, or $` + operatorVar + ` and $` + conversationVar + `.`
	return g
}

func (c *cli) proposeCommand() *cobra.Command {
	var s signFlags
	var id, title, body, bodyFile string
	cmd := &cobra.Command{
		Use:   "propose --title TITLE",
		Short: "Propose an issue; nothing is created until it is confirmed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(title) == "" {
				return usageError("--title is missing: write the issue's title")
			}
			if id == "" {
				id = uuid.NewString()
			}
			if _, err := operator.ParseRequestID(id); err != nil {
				return usageError("--id %s: write a UUID in lower case, or leave it out for a fresh one", id)
			}
			if bodyFile != "" {
				text, err := c.readText(bodyFile)
				if err != nil {
					return err
				}
				body = text
			}
			return c.operate(cmd.Context(), &s, http.MethodPost, id, "", map[string]any{"requestId": id, "title": title, "body": body})
		},
	}
	f := cmd.Flags()
	f.StringVar(&id, "id", "", "the request's `uuid`, to repeat one whose answer was lost (default: a fresh one)")
	f.StringVar(&title, "title", "", "the issue's title")
	f.StringVar(&body, "body", "", "the issue's text")
	f.StringVar(&bodyFile, "body-file", "", "`file` with the issue's text; - is standard input")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	return c.signed(cmd, &s)
}

// readText reads a file, or standard input for "-".
func (c *cli) readText(path string) (string, error) {
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(c.in)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("read --body-file: %w", err)
	}
	return string(b), nil
}

func (c *cli) requestCommand() *cobra.Command {
	var s signFlags
	return c.signed(&cobra.Command{
		Use:   "show ID",
		Short: "Show a request",
		Args:  oneID("request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.operate(cmd.Context(), &s, http.MethodGet, args[0], "", nil)
		},
	}, &s)
}

func (c *cli) confirmCommand() *cobra.Command {
	var s signFlags
	var revision int
	cmd := &cobra.Command{
		Use:   "confirm ID --revision N",
		Short: "Confirm a proposal as it was seen: its issue is created",
		Long: `Confirms a proposal at the revision that "belay operator show" says. A proposal
can be confirmed for 24 hours. Repeating it is safe: there is one issue at most.`,
		Args: oneID("request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 1 {
				return usageError("--revision is missing: write the one that `belay operator show %s` says", args[0])
			}
			return c.operate(cmd.Context(), &s, http.MethodPost, args[0], "/confirm", map[string]any{"revision": revision})
		},
	}
	cmd.Flags().IntVar(&revision, "revision", 0, "the revision that you saw")
	return c.signed(cmd, &s)
}

func (c *cli) reconcileCommand() *cobra.Command {
	var s signFlags
	var revision int
	cmd := &cobra.Command{
		Use:   "reconcile ID",
		Short: "Have the issue looked for of which nobody knows whether it was created",
		Args:  oneID("request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if revision != 0 {
				body["revision"] = revision
			}
			return c.operate(cmd.Context(), &s, http.MethodPost, args[0], "/reconcile", body)
		},
	}
	cmd.Flags().IntVar(&revision, "revision", 0, "only if the request is at this revision")
	return c.signed(cmd, &s)
}

func (c *cli) releaseCommand() *cobra.Command {
	var s signFlags
	var number int
	var head, repo string
	cmd := &cobra.Command{
		Use:   "release ID --pull N --head SHA",
		Short: "Release one head of the pull request that was opened for the issue",
		Long: `Records that the head that you looked at may be merged. A new head voids it: look
at that, and release it anew.`,
		Args: oneID("request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if number < 1 || head == "" {
				return usageError("--pull and --head are needed: the pull request's number, and the whole SHA that you looked at")
			}
			body := map[string]any{"number": number, "head": head}
			if repo != "" {
				body["repo"] = repo
			}
			return c.operate(cmd.Context(), &s, http.MethodPost, args[0], "/release", body)
		},
	}
	f := cmd.Flags()
	f.IntVar(&number, "pull", 0, "the pull request's `number`")
	f.StringVar(&head, "head", "", "the whole `SHA` of its head")
	f.StringVar(&repo, "repo", "", "`owner/name`, to be sure of it (default: that of the server)")
	return c.signed(cmd, &s)
}

// operatorAnswer is what the signed routes answer.
type operatorAnswer struct {
	Code    operator.Code    `json:"code"`
	Task    *operatorRequest `json:"task"`
	Release *struct {
		Number int    `json:"number"`
		Head   string `json:"head"`
	} `json:"release"`
}

// operatorRequest is a request as its owner sees it.
type operatorRequest struct {
	ID         string         `json:"id"`
	State      operator.State `json:"state"`
	Revision   int            `json:"revision"`
	Repo       string         `json:"repo"`
	Title      string         `json:"title"`
	Body       string         `json:"body"`
	ExpiresAt  string         `json:"expiresAt"`
	ApprovedAt string         `json:"approvedAt"`
	Reason     string         `json:"reason"`
	Evidence   string         `json:"evidence"`
	UpdatedAt  string         `json:"updatedAt"`
	Owner      struct {
		Tenant       string `json:"tenant"`
		Operator     string `json:"operator"`
		Conversation string `json:"conversation"`
	} `json:"owner"`
	Issue *struct {
		Number int    `json:"number"`
		URL    string `json:"url"`
	} `json:"issue"`
}

// operate sends one signed request about id and prints the answer.
func (c *cli) operate(ctx context.Context, s *signFlags, method, id, verb string, body any) error {
	a, k, err := c.signer(s)
	if err != nil {
		return err
	}
	path := operatorPath
	if verb != "" || method == http.MethodGet {
		if _, err := operator.ParseRequestID(id); err != nil {
			return usageError("%q is no request's id: write a UUID in lower case", id)
		}
		path += "/" + id + verb
	}
	ans, err := c.callSigned(ctx, a, k, method, path, body)
	if err != nil {
		return fmt.Errorf("request %s: %w", id, err)
	}
	var got operatorAnswer
	if json.Unmarshal(ans.body, &got) != nil || got.Code == "" {
		return a.refusedSigned(ans)
	}
	if c.output == outputJSON {
		if err := printJSON(c.out, json.RawMessage(ans.body)); err != nil {
			return err
		}
	}
	if ans.status >= 300 {
		return refusedCode(&got, k, id)
	}
	if c.output == outputJSON {
		return nil
	}
	return c.printRequest(&got)
}

// refusedCode says what a code means for who got it, and what to do.
func refusedCode(got *operatorAnswer, k *signing, id string) error {
	show := "`belay operator show " + id + "`"
	switch got.Code {
	case operator.Conflict:
		now := ""
		if got.Task != nil {
			now = fmt.Sprintf(": it is %s at revision %d now", got.Task.State, got.Task.Revision)
		}
		return fmt.Errorf("conflict: the request is not as you saw it, or not so far%s: look at it with %s", now, show)
	case operator.Uncertain:
		return fmt.Errorf("uncertain: nobody knows yet whether it was recorded: look with %s; to repeat a proposal, pass --id %s", show, id)
	case operator.NotFound:
		return fmt.Errorf("not found: there is no request %s of operator %s in conversation %s: check --as and --conversation", id, k.operator, k.conversation)
	case operator.Forbidden:
		return fmt.Errorf("forbidden: the repository's tenant is not that of request %s, or cannot be told: see `belay doctor --online` on the server", id)
	case operator.Expired:
		return fmt.Errorf("expired: a proposal can be confirmed for 24 hours: propose it anew, without --id")
	}
	return fmt.Errorf("%s: look at it with %s", got.Code, show)
}

// printRequest writes a request for people, and what comes next.
func (c *cli) printRequest(got *operatorAnswer) error {
	r := got.Task
	if r == nil {
		_, err := fmt.Fprintln(c.out, safe(string(got.Code)))
		return err
	}
	pairs := [][2]string{
		{"request", r.ID},
		{"answer", string(got.Code)},
		{"state", string(r.State)},
		{"revision", strconv.Itoa(r.Revision)},
		{"repo", r.Repo},
		{"title", r.Title},
		{"owner", r.Owner.Operator + " in " + r.Owner.Conversation + ", tenant " + r.Owner.Tenant},
		{"confirmed", r.ApprovedAt},
		{"reason", r.Reason},
		{"updated", r.UpdatedAt},
	}
	if r.Issue != nil {
		pairs = append(pairs, [2]string{"issue", "#" + strconv.Itoa(r.Issue.Number) + " " + r.Issue.URL})
	}
	if got.Release != nil {
		pairs = append(pairs, [2]string{"released", "#" + strconv.Itoa(got.Release.Number) + " at " + got.Release.Head})
	}
	switch r.State {
	case operator.StateProposed:
		pairs = append(pairs, [2]string{"next", fmt.Sprintf("belay operator confirm %s --revision %d, until %s", r.ID, r.Revision, r.ExpiresAt)})
	case operator.StateAttempting, operator.StateUnknown:
		pairs = append(pairs, [2]string{"next", "nobody knows yet whether the issue was created: belay operator reconcile " + r.ID})
	}
	return fields(c.out, pairs)
}
