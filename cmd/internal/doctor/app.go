package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// App asks GitHub for the App as it is registered there.
type App interface {
	App(ctx context.Context) (githubapp.AppInfo, error)
}

// NewApp returns the App of the configuration; nil where it has none, or one
// that cannot be used, which is a finding of its own.
func NewApp(c *config.Config) App { return newApp(c.GitHub) }

// NewApps are the Apps of the further sources, by their names.
func NewApps(c *config.Config) map[string]App {
	out := map[string]App{}
	for _, src := range c.AllSources()[1:] {
		if app := newApp(src.GitHub); app != nil {
			out[src.Name] = app
		}
	}
	return out
}

func newApp(g config.GitHub) App {
	if !g.HasApp() {
		return nil
	}
	key, err := g.AppKey()
	if err != nil {
		return nil
	}
	client, err := githubapp.New(githubapp.Options{AppID: g.AppID, PrivateKey: key, APIURL: g.APIURL})
	if err != nil {
		return unusable{err}
	}
	return client
}

// unusable is an App whose key or address is wrong.
type unusable struct{ err error }

// App returns why.
func (u unusable) App(context.Context) (githubapp.AppInfo, error) { return githubapp.AppInfo{}, u.err }

// Routes are the triggers that a configuration switches on.
func Routes(c *config.Config) githubapp.Routes {
	r := githubapp.Routes{Assignment: true, Command: true, Review: c.Review.PullRequest}
	for _, f := range c.Familiars {
		r.Label = r.Label || len(f.TriggerLabels) > 0
	}
	for _, rule := range c.Rules {
		if !slices.Contains(r.Rules, rule.Event) {
			r.Rules = append(r.Rules, rule.Event)
		}
	}
	return r
}

// app compares the App of each source with what the routes in use need.
func (d *doctor) app(ctx context.Context) {
	for _, src := range d.c.AllSources() {
		app := d.Apps[src.Name]
		if src.Name == task.DefaultSource {
			app = d.App
		}
		if app != nil {
			d.appOf(ctx, src, app)
		}
	}
}

func (d *doctor) appOf(ctx context.Context, src config.NamedSource, app App) {
	info, err := app.App(ctx)
	switch {
	case errors.As(err, new(*githubapp.Error)) && !errors.Is(err, githubapp.ErrUnauthorized) && !errors.Is(err, githubapp.ErrNotFound):
		d.warn(src.Key+".api_url", fmt.Sprintf("GitHub does not say how the App is: %v", err), "check that this host reaches api_url, and try again")
		return
	case errors.Is(err, githubapp.ErrRateLimited):
		d.warn(src.Key+".api_url", fmt.Sprintf("GitHub does not say how the App is: %v", err), "try again later")
		return
	case err != nil:
		d.fail(src.Key+".app_id", fmt.Sprintf("the App cannot be used: %v", err), "check app_id, and use a private key of that App's settings page")
		return
	}
	d.grants(src, &info)
	d.hook(src, &info)
	d.clock(src, &info)
	if src.Name == task.DefaultSource && !slices.ContainsFunc(d.c.Familiars, func(f config.Familiar) bool { return strings.EqualFold(f.BotUsername, info.Login) }) {
		d.warn("familiars", fmt.Sprintf("none has the App's login, %s: people cannot address it, and its own events are not known as such", info.Login),
			fmt.Sprintf("write bot_username = %q", info.Login))
	}
}

// grants are the permissions and events that are missing.
func (d *doctor) grants(src config.NamedSource, info *githubapp.AppInfo) {
	permissions, events, err := githubapp.Needs(Routes(d.c))
	if err != nil {
		d.fail(src.Key+".app_id", err.Error(), "remove that rule, or use a repository's own webhook for it")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(permissions)) {
		if has, want := info.Permissions[name], permissions[name]; has != want && has != "admin" && !(has == "write" && want == "read") {
			d.fail(src.Key+".app_id", fmt.Sprintf("the App lacks the permission %s: %s", name, want),
				"grant it under Permissions & events of the App's settings, then accept it in each installation")
		}
	}
	for _, event := range events {
		if !slices.Contains(info.Events, event) {
			d.fail(src.Key+".app_id", "the App does not get the event "+event, "subscribe to it under Permissions & events of the App's settings")
		}
	}
}

// hook is how GitHub reaches the webhook.
func (d *doctor) hook(src config.NamedSource, info *githubapp.AppInfo) {
	const settings = " in the App's settings"
	switch want := src.WebhookURL; {
	case info.HookURL == "":
		d.fail(src.Key+".webhook_url", "the App has no webhook address: GitHub sends nothing", "write the address at which GitHub reaches belay"+settings)
	case want != "" && want != info.HookURL:
		d.warn(src.Key+".webhook_url", fmt.Sprintf("it is %q, but the App's webhook goes to %q", want, info.HookURL), "correct one of the two")
	case strings.HasPrefix(info.HookURL, "http:"):
		d.warn(src.Key+".webhook_url", "the App's webhook is plain http: who is on the way can read it", "write https://"+settings)
	}
	if info.HookURL != "" && !info.HookSecret {
		d.fail(src.Key+".webhook_secrets", "the App's webhook has no secret: GitHub signs nothing, and every delivery is answered 401", "write one of webhook_secrets"+settings)
	}
	if info.HookInsecure {
		d.warn(src.Key+".webhook_url", "the App's webhook does not verify certificates", "enable SSL verification"+settings)
	}
	if info.HookContentType != "" && info.HookContentType != "json" {
		d.warn(src.Key+".webhook_url", fmt.Sprintf("the App's webhook sends its events as %q", info.HookContentType), "choose application/json"+settings)
	}
}

// maxSkew is how far this host's clock may be from GitHub's: a token that is
// from GitHub's future is refused.
const maxSkew = 30 * time.Second

func (d *doctor) clock(src config.NamedSource, info *githubapp.AppInfo) {
	if skew := d.Now().Sub(info.Clock); !info.Clock.IsZero() && skew.Abs() > maxSkew {
		d.warn(src.Key+".app_id", fmt.Sprintf("the clock of this host is %s off GitHub's, which refuses tokens for that", skew.Abs().Round(time.Second)), "let NTP set the clock")
	}
}
