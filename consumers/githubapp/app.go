package githubapp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"
)

// AppInfo is what GitHub knows of the App, for doctor to compare.
type AppInfo struct {
	ID          int64
	Slug        string
	Login       string // of its bot
	Permissions map[string]string
	Events      []string
	// HookURL, HookContentType and HookInsecure are the webhook's settings.
	HookURL         string
	HookContentType string
	HookInsecure    bool
	// HookSecret is set when GitHub signs what it sends.
	HookSecret bool
	// Clock is GitHub's at the answer, to the second; zero if it said none.
	Clock time.Time
}

// App asks GitHub for the App as it is registered.
func (c *Client) App(ctx context.Context) (AppInfo, error) {
	app, err := c.getApp(ctx)
	if err != nil {
		return AppInfo{}, err
	}
	var hook *github.HookConfig
	var date string
	err = c.asApp(ctx, "get webhook settings of the app", read, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		hook, resp, err = gh.Apps.GetHookConfig(ctx)
		if resp != nil {
			date = resp.Header.Get("Date")
		}
		return resp, err
	})
	if err != nil {
		return AppInfo{}, err
	}
	out := AppInfo{
		ID: app.GetID(), Slug: app.GetSlug(), Login: app.GetSlug() + "[bot]", Events: app.Events,
		HookURL: hook.GetURL(), HookContentType: hook.GetContentType(), HookInsecure: hook.GetInsecureSSL() == "1",
		HookSecret: hook.GetSecret() != "",
	}
	out.Clock, _ = http.ParseTime(date) // zero if it is none
	text, err := json.Marshal(app.Permissions)
	if err == nil {
		err = json.Unmarshal(text, &out.Permissions)
	}
	if err != nil {
		return AppInfo{}, fmt.Errorf("read permissions of the app: %w", err)
	}
	return out, nil
}

func (c *Client) getApp(ctx context.Context) (*github.App, error) {
	var app *github.App
	err := c.asApp(ctx, "get app", read, 0, func(ctx context.Context, gh *github.Client) (*github.Response, error) {
		var resp *github.Response
		var err error
		app, resp, err = gh.Apps.Get(ctx, "")
		return resp, err
	})
	if err == nil && (app.GetSlug() == "" || app.GetID() != c.o.AppID) {
		err = &Error{Kind: ErrTransient, Op: "get app", Message: fmt.Sprintf("the answer is about app %d %q", app.GetID(), app.GetSlug())}
	}
	return app, err
}

// login is the bot's login, once it was asked for.
type login struct {
	turn chan struct{}
	name string
}

// Login is the login of the App's bot, such as belay[bot]. It is asked for once.
func (c *Client) Login(ctx context.Context) (string, error) {
	select {
	case c.login.turn <- struct{}{}:
	case <-ctx.Done():
		return "", &Error{Kind: ErrTransient, Op: "get app", cause: ctx.Err()}
	}
	defer func() { <-c.login.turn }()
	if c.login.name == "" {
		app, err := c.getApp(ctx)
		if err != nil {
			return "", err
		}
		c.login.name = strings.ToLower(app.GetSlug()) + "[bot]"
	}
	return c.login.name, nil
}
