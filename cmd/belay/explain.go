package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const explainPath = "/api/github/explain"

// explainStep is one step of an explanation.
type explainStep struct {
	At   string `json:"at"`
	Kind string `json:"kind"`
	Text string `json:"text"`
	Why  string `json:"why"`
	Next string `json:"next"`
	URL  string `json:"url"`
}

// explainCommand is `belay explain`.
func (c *cli) explainCommand() *cobra.Command {
	return c.serverFlag(&cobra.Command{
		Use:   "explain ID",
		Short: "Tell what became of a delivery or a task, and why",
		Long: `Explain prints one timeline of a delivery or a task, from the webhook's headers
to what belay decided, ran, sent and shows on GitHub, each with its reason.
ID is GitHub's X-GitHub-Delivery or the id of a task.`,
		Args: oneID("delivery or task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			ans, err := a.get(cmd.Context(), explainPath+"/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return withNext(err, http.StatusNotFound, "`belay deliveries ls` and `belay tasks ls` list those there are; a delivery that never came is not among them")
			}
			return c.showExplanation(a, ans)
		},
	})
}

func (c *cli) showExplanation(a *apiClient, ans answer) error {
	var body struct {
		Steps []explainStep `json:"steps"`
	}
	if err := a.decode(ans, &body); err != nil {
		return err
	}
	if c.output == outputJSON {
		var whole json.RawMessage
		if err := a.decode(ans, &whole); err != nil {
			return err
		}
		return printJSON(c.out, whole)
	}
	for _, st := range body.Steps {
		if err := c.showStep(st); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) showStep(st explainStep) error {
	text := st.Text
	if st.URL != "" {
		text += ": " + st.URL
	}
	_, err := fmt.Fprintf(c.out, "%s  %-9s  %s\n", safe(st.At), safe(st.Kind), safe(text))
	for _, more := range []struct{ name, text string }{{"why", st.Why}, {"next", st.Next}} {
		if more.text != "" && err == nil {
			_, err = fmt.Fprintf(c.out, "%29s%-9s  %s\n", "", more.name+":", safe(cut(more.text, maxStep)))
		}
	}
	if err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	return nil
}

// maxStep is how many runes of a reason are shown; -o json has all.
const maxStep = 300
