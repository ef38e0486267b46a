package consumers

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// GitHubOptions are what GitHub surfaces are made of.
type GitHubOptions struct {
	// Clients are the Apps, by the source whose tasks they reach.
	Clients map[string]*githubapp.Client
	// Name is a familiar's display name; nil shows its id.
	Name func(familiar string) string
	// DetailsURL is where a task is shown outside of GitHub; nil is nowhere.
	DetailsURL func(task.ID) string
}

// GitHub are the Surfaces on GitHub itself.
type GitHub struct{ o GitHubOptions }

// NewGitHub makes GitHub surfaces.
func NewGitHub(o GitHubOptions) *GitHub { return &GitHub{o} }

// reach finds the client and the repository of a task, or says ErrNoApp.
func (g *GitHub) reach(t *task.Record) (*githubapp.Client, githubapp.Repo, error) {
	c := g.o.Clients[t.Source]
	if c == nil {
		return nil, githubapp.Repo{}, fmt.Errorf("%w: source %q has none", ErrNoApp, t.Source)
	}
	repo, err := githubapp.RepoOf(t)
	if err != nil {
		return nil, repo, fmt.Errorf("%w: %w", ErrNoApp, err)
	}
	return c, repo, nil
}

// surfaces are those of a task.
func (g *GitHub) surfaces(t *task.Record, grip Grip) (*githubapp.Surfaces, error) {
	c, _, err := g.reach(t)
	if err != nil {
		return nil, err
	}
	o := githubapp.SurfacesOptions{Client: c, Name: g.o.Name, DetailsURL: g.o.DetailsURL}
	if grip.Pin != nil {
		o.Pin = func(ctx context.Context, _ task.Record, head string) error { return grip.Pin(ctx, head) }
	}
	if grip.Holds != nil {
		o.Holds = func(ctx context.Context, _ task.Record) (bool, error) { return grip.Holds(ctx) }
	}
	return githubapp.NewSurfaces(o)
}

// CanWrite implements Surfaces.
func (g *GitHub) CanWrite(ctx context.Context, t task.Record) (bool, error) {
	c, repo, err := g.reach(&t)
	if err != nil {
		return false, err
	}
	return c.CanWrite(ctx, repo, t.Commander)
}

// Begin implements Surfaces.
func (g *GitHub) Begin(ctx context.Context, t task.Record, grip Grip) (Stage, error) {
	s, err := g.surfaces(&t, grip)
	if err != nil {
		return nil, err
	}
	n, err := s.Begin(ctx, t)
	if err != nil {
		return nil, err
	}
	return &stage{client: g.o.Clients[t.Source], session: n}, nil
}

// Reply implements Surfaces.
func (g *GitHub) Reply(ctx context.Context, t task.Record, text string) error {
	s, err := g.surfaces(&t, Grip{})
	if err != nil {
		return err
	}
	_, err = s.Reply(ctx, t, text)
	return err
}

// Parked implements Surfaces.
func (g *GitHub) Parked(installation int64) (until time.Time, reason string) {
	for _, c := range g.o.Clients {
		if at, why := c.Parked(installation); at.After(until) {
			until, reason = at, why
		}
	}
	return until, reason
}

// stage is a session of githubapp and what its run needs.
type stage struct {
	client  *githubapp.Client
	session *githubapp.Session
}

// runMargin is what the agent's token has left when the run's time is over.
const runMargin = 5 * time.Minute

// Equip implements Stage. The agent's token is the run's own; that of the
// orchestration is only named, so that no brief carries it.
func (s *stage) Equip(ctx context.Context, job *executor.Job) error {
	if job.Builtin() {
		return nil
	}
	repo, need := s.session.Repo, job.Limit()+runMargin
	token, err := s.client.TokenFor(ctx, repo, githubapp.Agent, need)
	if err != nil {
		return err
	}
	own, err := s.client.Token(ctx, repo, githubapp.Orchestration)
	if err != nil {
		return err
	}
	job.GitToken, job.Tokens = token.Value, []redact.Secret{own.Value}
	job.Broker = func(path string, uid int, learn func(redact.Secret)) (io.Closer, error) {
		return githubapp.NewTokenBroker(githubapp.BrokerOptions{
			Path: path, UID: uid, Issued: learn,
			Token: func(ctx context.Context) (githubapp.Token, error) {
				return s.client.TokenFor(ctx, repo, githubapp.Agent, need)
			},
		})
	}
	if t := &s.session.Task; t.Kind.Name == task.ReviewPullRequest {
		job.ReviewFiles, _, err = s.client.PullFiles(ctx, repo, t.Kind.PRNumber)
	}
	return err
}

// CheckRunURL implements Stage.
func (s *stage) CheckRunURL() string { return s.session.Check.URL }

// Publish implements Stage.
func (s *stage) Publish(ctx context.Context, rep executor.Report) (githubapp.Published, error) {
	return s.session.Finish(ctx, outcomeOf(rep))
}

// outcomeOf is a report as GitHub shows it.
func outcomeOf(rep executor.Report) githubapp.Outcome {
	c := rep.Contract
	if c == nil { // the built-in runner
		return githubapp.Outcome{Status: rep.Result.Status, ExitReason: rep.Result.Reason, Summary: rep.Result.Summary}
	}
	out := githubapp.Outcome{
		Status: c.Status, ExitReason: string(c.ExitReason), Summary: c.Summary, PRBody: c.PRBody, Branch: c.Branch, Commits: len(c.Commits),
	}
	if c.Review.Mode == executor.ReviewNone {
		return out
	}
	v := &githubapp.Review{
		Evidence: githubapp.Evidence(c.Review.EvidenceStatus), ReviewedFiles: c.Review.ReviewedFiles,
		SupportingFiles: c.Review.SupportingFiles, NoFindingsReason: c.Review.NoFindingsReason, Limitations: c.Review.Limitations,
	}
	for _, f := range c.Review.Findings {
		v.Findings = append(v.Findings, githubapp.Finding{
			Severity: string(f.Severity), File: f.File, Line: f.Line, Title: f.Title, Body: f.Body, Recommendation: f.Recommendation,
		})
	}
	for _, t := range c.Review.TestsRun {
		v.Tests = append(v.Tests, githubapp.TestRun{Command: t.Command, Status: string(t.Status), Output: t.OutputSummary})
	}
	out.Review = v
	return out
}
