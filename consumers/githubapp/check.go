package githubapp

import (
	"context"

	"github.com/google/go-github/v88/github"
)

// Conclusion is how a check run ended.
type Conclusion string

// The conclusions that belay uses.
const (
	Success        Conclusion = "success"
	Neutral        Conclusion = "neutral"
	Failure        Conclusion = "failure"
	ActionRequired Conclusion = "action_required"
)

// The statuses of a check run.
const (
	StatusQueued     = "queued"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
)

// CheckRun is a check run of the App.
type CheckRun struct {
	ID         int64
	URL        string // for people
	HeadSHA    string
	ExternalID string
	Status     string
	Conclusion Conclusion
	Title      string
	Summary    string
}

// CheckSpec says which check run is wanted.
type CheckSpec struct {
	Head       string // the commit
	ExternalID string // the task's id
	Name       string
	DetailsURL string // "" is the App's page
}

// Limits of GitHub, in bytes: it counts characters, of which there are no more.
const (
	maxOutput = 65535
	maxTitle  = 255
)

// EnsureCheckRun returns the App's check run of that external id at the
// commit; one that is missing is created, queued. A commit that GitHub does
// not have yet is ErrTransient.
func (c *Client) EnsureCheckRun(ctx context.Context, repo Repo, spec CheckSpec) (CheckRun, error) {
	got, err := ensure(ctx, c,
		func() (*CheckRun, error) { return c.FindCheckRun(ctx, repo, spec.Head, spec.ExternalID) },
		func() (*CheckRun, error) { return c.createCheckRun(ctx, repo, spec) })
	if err != nil {
		return CheckRun{}, err
	}
	return *got, nil
}

// FindCheckRun looks for the App's check run of an external id at a commit;
// nil if there is none. Of several it is the first one made.
func (c *Client) FindCheckRun(ctx context.Context, repo Repo, head, externalID string) (found *CheckRun, err error) {
	q := request{op: "list check runs", repo: repo, role: Orchestration}
	err = pages(func(at github.ListOptions) (*github.Response, error) {
		var got *github.ListCheckRunsResults
		var resp *github.Response
		err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
			var err error
			opts := &github.ListCheckRunsOptions{AppID: &c.o.AppID, Filter: github.Ptr("all"), ListOptions: at}
			got, resp, err = gh.Checks.ListCheckRunsForRef(ctx, repo.Owner, repo.Name, head, opts)
			return resp, err
		})
		if err != nil {
			return resp, err
		}
		for _, k := range got.CheckRuns {
			if k.GetExternalID() == externalID && k.GetApp().GetID() == c.o.AppID && (found == nil || k.GetID() < found.ID) {
				found = checkOf(k)
			}
		}
		return resp, nil
	})
	return found, err
}

// CheckRun reads a check run; another App's is ErrNotFound.
func (c *Client) CheckRun(ctx context.Context, repo Repo, id int64) (CheckRun, error) {
	var got *github.CheckRun
	q := request{op: "get check run", repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Checks.GetCheckRun(ctx, repo.Owner, repo.Name, id)
		return resp, err
	})
	switch {
	case err != nil:
		return CheckRun{}, err
	case got.GetApp().GetID() != c.o.AppID:
		return CheckRun{}, &Error{Kind: ErrNotFound, Op: q.op, Message: "it is another app's"}
	}
	return *checkOf(got), nil
}

func (c *Client) createCheckRun(ctx context.Context, repo Repo, spec CheckSpec) (*CheckRun, error) {
	opts := github.CreateCheckRunOptions{
		Name: spec.Name, HeadSHA: spec.Head, ExternalID: &spec.ExternalID, Status: github.Ptr(StatusQueued), DetailsURL: optional(spec.DetailsURL),
	}
	var got *github.CheckRun
	q := request{op: "create check run", effect: create, repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Checks.CreateCheckRun(ctx, repo.Owner, repo.Name, opts)
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	if got.GetID() == 0 {
		return nil, shapeless(q.op, q.effect)
	}
	return checkOf(got), nil
}

// CheckUpdate is the state that a check run is to have.
type CheckUpdate struct {
	Status     string
	Conclusion Conclusion // with StatusCompleted
	Title      string
	Summary    string
}

// UpdateCheckRun brings a check run into a state and returns it; one that is
// in it already costs no request. Titles and summaries are cut to GitHub's limits.
func (c *Client) UpdateCheckRun(ctx context.Context, repo Repo, run CheckRun, name string, want CheckUpdate) (CheckRun, error) {
	want.Title, want.Summary = oneLine(want.Title, maxTitle), cut(want.Summary, maxOutput)
	if run.Status == want.Status && run.Conclusion == want.Conclusion && run.Title == want.Title && run.Summary == want.Summary {
		return run, nil
	}
	opts := github.UpdateCheckRunOptions{
		Name: name, Status: &want.Status, Conclusion: optional(string(want.Conclusion)),
		Output: &github.CheckRunOutput{Title: &want.Title, Summary: &want.Summary},
	}
	if want.Status == StatusCompleted {
		opts.CompletedAt = &github.Timestamp{Time: c.o.Now().UTC()}
	}
	var got *github.CheckRun
	q := request{op: "update check run", effect: edit, repo: repo, role: Orchestration}
	err := c.do(ctx, q, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		got, resp, err = gh.Checks.UpdateCheckRun(ctx, repo.Owner, repo.Name, run.ID, opts)
		return resp, err
	})
	if err != nil {
		return run, err
	}
	if got.GetID() != run.ID {
		return run, shapeless(q.op, q.effect)
	}
	return *checkOf(got), nil
}

func checkOf(k *github.CheckRun) *CheckRun {
	return &CheckRun{
		ID: k.GetID(), URL: k.GetHTMLURL(), HeadSHA: k.GetHeadSHA(), ExternalID: k.GetExternalID(), Status: k.GetStatus(),
		Conclusion: Conclusion(k.GetConclusion()), Title: k.GetOutput().GetTitle(), Summary: k.GetOutput().GetSummary(),
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
