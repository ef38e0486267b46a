package github

import (
	"time"

	"github.com/belay-run/belay/kv/task"
)

// Config is what routing needs to know of a source. Its caller validates it;
// routing only reads it.
type Config struct {
	// Source is the webhook endpoint's name, task.DefaultSource for /webhook.
	Source string
	// AppConfigured tells whether a GitHub App stands behind the source.
	// AppID 0 accepts the hooks of any App.
	AppConfigured bool
	AppID         int64
	// AppLogin is the App's own login, such as `ourapp[bot]`; may be empty.
	AppLogin  string
	Familiars []Familiar
	// Installations are all that may use the source, by id; none listed means
	// that whoever reaches it may use all.
	Installations map[int64]*Installation
	// ReviewFamiliar is the id of the familiar that reviews pull requests
	// nobody asked it to; empty means the first one.
	ReviewFamiliar string
	// ReviewPullRequest switches the review lane on, IncludeDrafts drafts in it.
	ReviewPullRequest bool
	IncludeDrafts     bool
	Lanes             Lanes
	// Rules route what the lanes make no task of; the first that matches wins.
	Rules []Rule
	// SurfacesReady tells whether workers can ask GitHub for a commander's
	// permission and answer there. Until then gated commands are ignored.
	SurfacesReady bool
	// Operator reads for which operator request an issue of a repository was
	// made, nil if its body does not begin with a marker that the App signed.
	// It is pure; nil knows no operators.
	Operator func(repoID int64, body string) *task.Operator `json:"-"`
	// DedupeDays is how long a delivery is remembered; a payload older than
	// that by its own time could be a replay. 0 sets no limit.
	DedupeDays int
	// StoreSince is when the log of deliveries began; zero means long ago. A
	// log younger than DedupeDays has forgotten nothing, so no payload is too
	// old for it.
	StoreSince time.Time

	known []Familiar // all of the source's, where Familiars are narrowed
}

// Lanes switches triggers on. The review lane has its own switch.
type Lanes struct{ Assignment, Label, Command bool }

// AllLanes has every trigger on, the default.
var AllLanes = Lanes{Assignment: true, Label: true, Command: true}

// Familiar is a bot identity: which logins, labels and commands reach it.
type Familiar struct {
	ID            string
	DisplayName   string
	BotUsername   string // a login, usually with `[bot]`
	TriggerLabels []string
}

// handle is what people write after the @.
func (f *Familiar) handle() string {
	name, _ := cutBot(f.BotUsername)
	return name
}

// is reports whether login is the familiar's. A bot_username configured
// without `[bot]` also stands for the App's account with it.
func (f *Familiar) is(login string) bool {
	if f.BotUsername == "" {
		return false
	}
	name, bot := cutBot(login)
	return sameLogin(login, f.BotUsername) || bot && sameLogin(name, f.BotUsername)
}

// byLogin returns the familiar with the login, nil when there is none.
func byLogin(familiars []Familiar, login string) *Familiar {
	for i := range familiars {
		if f := &familiars[i]; f.is(login) {
			return f
		}
	}
	return nil
}

// byID returns the familiar with the id, nil when there is none.
func (c *Config) byID(id string) *Familiar {
	for i := range c.Familiars {
		if f := &c.Familiars[i]; f.ID == id {
			return f
		}
	}
	return nil
}

// byLabel returns the first familiar that the label triggers.
func (c *Config) byLabel(label string) *Familiar {
	for i := range c.Familiars {
		for _, l := range c.Familiars[i].TriggerLabels {
			if l == label && l != "" {
				return &c.Familiars[i]
			}
		}
	}
	return nil
}

// reviewer returns the familiar of the review lane.
func (c *Config) reviewer() *Familiar {
	for i := range c.Familiars {
		if f := &c.Familiars[i]; c.ReviewFamiliar == "" || f.ID == c.ReviewFamiliar {
			return f
		}
	}
	if c.known != nil && len(c.Familiars) > 0 { // the source's is another's
		return &c.Familiars[0]
	}
	return nil
}

// isFamiliar reports whether the login is that of any familiar of the source,
// whoever may use it.
func (c *Config) isFamiliar(login string) bool {
	return byLogin(c.Familiars, login) != nil || byLogin(c.known, login) != nil
}

// ours reports whether the login is the App's or a familiar's.
func (c *Config) ours(login string) bool {
	return login != "" && (sameLogin(login, c.AppLogin) || c.isFamiliar(login))
}
