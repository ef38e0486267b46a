package app

import (
	"context"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// hasApp reports whether a GitHub App is configured: its surfaces need both.
func hasApp(c *config.Config) bool { return c.GitHub.HasApp() }

// openGitHub makes the client of each source's App, and the channels that
// close what ended tasks show; without an App, tasks run without surfaces. It
// asks nothing of GitHub.
func (a *App) openGitHub(context.Context) error {
	c := a.o.Config
	if !hasApp(c) {
		return nil
	}
	key, err := c.GitHub.AppKey()
	if err != nil {
		return err
	}
	client, err := githubapp.New(githubapp.Options{
		AppID: c.GitHub.AppID, PrivateKey: key, APIURL: c.GitHub.APIURL, MarkerSecrets: c.GitHub.MarkerSecrets,
		Issued: a.issued, Logger: a.log, Registerer: a.reg, Now: a.o.Now, Sleep: a.o.GitHubSleep,
	})
	if err != nil {
		return err
	}
	a.appClient = client
	a.cleanups.push("github", func(context.Context) error { client.Close(); return nil })
	a.github = consumers.NewGitHub(consumers.GitHubOptions{
		Clients: map[string]*githubapp.Client{task.DefaultSource: client},
		Name: func(id string) string {
			if f, ok := a.conf().FamiliarByID(id); ok {
				return f.DisplayName
			}
			return id
		},
	})
	a.learnLogin(client)
	a.channels[channelCheck] = a.github.CheckChannel(a.store, a.o.Now)
	a.channels[channelComment] = a.github.CommentChannel(a.store, a.o.Now)
	return nil
}

// surfaces are what the worker shows tasks by; none without an App.
func (a *App) surfaces() consumers.Surfaces {
	if a.github == nil {
		return nil
	}
	return a.github
}

// issued keeps a new token out of what this process says. Tokens of GitHub's
// own shape are known by it; remembering each of them would never end.
func (a *App) issued(token redact.Secret) {
	if v := token.Reveal(); a.redact.String(v) == v {
		a.redact.Add(v)
	}
}

// loginEvery is how often GitHub is asked for the App's login until it says.
const loginEvery = 30 * time.Second

// learnLogin finds out what the App's bot is called, so that routing knows the
// events that the App itself caused, whatever the familiars are called. It
// does not keep a start waiting: until it is known, the familiars' own names
// tell.
func (a *App) learnLogin(client *githubapp.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			login, err := client.Login(ctx)
			if err == nil {
				a.setLogin(login)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(loginEvery):
				a.log.Warn("the App's login is not known yet", "class", "login", "err", err)
			}
		}
	}()
	a.cleanups.push("login of the app", func(context.Context) error { cancel(); <-done; return nil })
}

func (a *App) setLogin(login string) { a.learn(func() { a.login = login }) }
