package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// openGitHub makes the client of each source's App, and the channels that
// close what ended tasks show; without any App, tasks run without surfaces. It
// asks nothing of GitHub.
func (a *App) openGitHub(context.Context) error {
	clients := map[string]*githubapp.Client{}
	a.clients = clients
	for _, src := range a.o.Config.AllSources() {
		if !src.HasApp() {
			continue
		}
		client, err := a.openApp(src)
		if err != nil {
			return fmt.Errorf("%w; next: mend the App of %s", err, src.Key)
		}
		clients[src.Name] = client
	}
	if len(clients) == 0 {
		return nil
	}
	a.appClient = clients[task.DefaultSource]
	a.github = consumers.NewGitHub(consumers.GitHubOptions{
		Clients: clients,
		Name: func(id string) string {
			if f, ok := a.conf().FamiliarByID(id); ok {
				return f.DisplayName
			}
			return id
		},
	})
	a.channels[channelCheck] = a.github.CheckChannel(a.store, a.o.Now)
	a.channels[channelComment] = a.github.CommentChannel(a.store, a.o.Now)
	return nil
}

// openApp makes the client of a source's App. Its metrics have the source's
// name, of which there are as many as the configuration may have.
func (a *App) openApp(src config.NamedSource) (*githubapp.Client, error) {
	key, err := src.AppKey()
	if err != nil {
		return nil, err
	}
	client, err := githubapp.New(githubapp.Options{
		AppID: src.AppID, PrivateKey: key, APIURL: src.APIURL, MarkerSecrets: src.MarkerSecrets,
		Issued: a.issued, Logger: a.log.With("source", src.Name), Now: a.o.Now, Sleep: a.o.GitHubSleep,
		Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"source": src.Name}, a.reg),
	})
	if err != nil {
		return nil, err
	}
	a.cleanups.push("github of "+src.Name, func(context.Context) error { client.Close(); return nil })
	a.learnLogin(src.Name, client)
	return client, nil
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
func (a *App) learnLogin(source string, client *githubapp.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			login, err := client.Login(ctx)
			if err == nil {
				a.setLogin(source, login)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(loginEvery):
				a.log.Warn("the App's login is not known yet", "class", "login", "source", source, "err", err)
			}
		}
	}()
	a.cleanups.push("login of the App of "+source, func(context.Context) error { cancel(); <-done; return nil })
}

func (a *App) setLogin(source, login string) { a.learn(func() { a.logins[source] = login }) }
