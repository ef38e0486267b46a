package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// hook is one webhook to send.
type hook struct {
	source string // "" is task.DefaultSource
	event  string // with its action
	id     string
	body   []byte
	form   bool
	secret redact.Secret
}

// deliver sends a webhook as GitHub does. An answer of any status is no error.
func (a *apiClient) deliver(ctx context.Context, h *hook) (answer, error) {
	body, media := h.body, "application/json"
	if h.form {
		body, media = []byte(url.Values{"payload": {string(h.body)}}.Encode()), "application/x-www-form-urlencoded"
	}
	path := "/webhook"
	if h.source != "" && h.source != task.DefaultSource {
		path += "/" + url.PathEscape(h.source)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	event, _, _ := strings.Cut(h.event, ".")
	req.Header.Set("Content-Type", media)
	req.Header.Set("User-Agent", "GitHub-Hookshot/belay-send")
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-GitHub-Delivery", h.id)
	req.Header.Set("X-Hub-Signature-256", sign(h.secret, body))
	return a.do(req)
}

// sign is GitHub's signature of a body.
func sign(secret redact.Secret, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// hookAnswer is what /webhook answers.
type hookAnswer struct {
	Task      string `json:"task"`
	Ignored   string `json:"ignored"`
	Pong      bool   `json:"pong"`
	Duplicate bool   `json:"duplicate"`
}

// printHook writes what became of a webhook.
func (c *cli) printHook(a *apiClient, h *hook, ans answer) error {
	if c.output == outputJSON {
		return c.printHookJSON(h, ans)
	}
	text := ""
	var got hookAnswer
	switch {
	case ans.status >= 300:
		text = a.refusedHook(ans).Error()
	case json.Unmarshal(ans.body, &got) != nil:
		text = fmt.Sprintf("accepted, but the answer is not belay's: check --server %s", a.base)
	default:
		text = got.String()
	}
	_, err := fmt.Fprintf(c.out, "%s %s: %s\n", safe(h.event), safe(h.id), safe(text))
	return err
}

func (c *cli) printHookJSON(h *hook, ans answer) error {
	line := map[string]any{"event": h.event, "delivery": h.id, "status": ans.status}
	if json.Valid(ans.body) {
		line["answer"] = json.RawMessage(ans.body)
	}
	return printJSON(c.out, line)
}

// String says what belay made of the webhook, and what to do next.
func (h hookAnswer) String() string {
	prefix := ""
	if h.Duplicate {
		prefix = "a duplicate: "
	}
	switch {
	case h.Task != "":
		return prefix + "task " + h.Task + " (belay tasks show " + h.Task + ")"
	case h.Pong:
		return prefix + "pong"
	}
	text := prefix + "ignored: " + h.Ignored
	if hint := hints[task.Reason(h.Ignored)]; hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// hints say of some ignore reasons what would change them.
var hints = map[task.Reason]string{
	task.Scope:          "the trigger is switched off: for pull requests set pull_request = true under [review]",
	task.Unroutable:     "no familiar's label, login or command is in it",
	task.NoInstallation: "an App is configured, and the payload names no installation",
	task.NoGitHubApp:    "the command needs a GitHub App to check who gave it",
	task.TooOld:         "by its own times it is older than dedupe_days",
	task.Self:           "the sender is a familiar",
	task.ForeignApp:     "it names another App than app_id",

	task.ForeignInstallation: "the installation belongs to the source that brought its first delivery: name it with --source",
}

// refusedHook makes an error of an answer of /webhook.
func (a *apiClient) refusedHook(ans answer) *apiError {
	e := a.refused(ans)
	switch ans.status {
	case http.StatusUnauthorized:
		e.next = "the server has another webhook secret: name it with --secret-file"
	case http.StatusConflict:
		e.next = "leave --delivery out for a fresh id"
	case http.StatusNotFound:
		e.next = "check --server and --source"
	}
	return e
}
