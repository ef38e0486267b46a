package github

import (
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/task"
)

// Headers are a webhook request's headers that count. Delivery has been
// through ParseDeliveryID.
type Headers struct {
	Event      string // X-GitHub-Event
	Delivery   string // X-GitHub-Delivery
	HookID     string // X-GitHub-Hook-ID
	TargetType string // X-GitHub-Hook-Installation-Target-Type
	TargetID   string // X-GitHub-Hook-Installation-Target-ID
}

// maxEvent is the longest event name or action that a delivery keeps, in bytes.
const maxEvent = 100

// Route decides what becomes of an event received at now. It fills all of the
// delivery but PayloadHash; of a task it leaves out the id and the Routing,
// which follow from the message id. An ignored one has its Routing.
func Route(cfg *Config, h Headers, ev *Event, now time.Time) task.Delivery {
	d := task.Delivery{
		V: task.Version, Source: cfg.Source, ID: task.DeliveryID(h.Delivery),
		Event: plainName(h.Event), Action: plainName(ev.Action),
		InstallationID: ev.Installation, RepoID: ev.Repository.ID, Repo: ev.Repository.FullName,
		Number: ev.number(), ReceivedAt: task.At(now),
	}
	if isID(h.HookID) {
		d.HookID = h.HookID
	}
	spec, reason := decide(cfg, h, ev, now)
	if reason != "" {
		d.Routing = task.Ignored(reason)
		return d
	}
	spec.CloneURL, spec.DefaultBranch = ev.Repository.CloneURL, ev.Repository.DefaultBranch
	spec.Operator = cfg.operator(ev)
	if spec.Rule == nil {
		spec.HeadSHA, spec.Once = ev.PullRequest.HeadSHA, once(h.Event)
	}
	d.Task = spec
	return d
}

// decide returns the task or the first reason that matches, in the order of
// task.Reasons. ForeignInstallation and QuotaExceeded need a store and are
// their caller's.
func decide(cfg *Config, h Headers, ev *Event, now time.Time) (*task.Spec, task.Reason) {
	if h.Event == "ping" {
		return nil, task.Ping
	}
	if foreign(cfg, h) {
		return nil, task.ForeignApp
	}
	if cfg.ownCheck(h.Event, ev) || cfg.ours(ev.Sender) && !(h.Event == "issues" && cfg.operator(ev) != nil) {
		return nil, task.Self
	}
	own, ok := cfg.narrowed(ev)
	w := asked(own, h.Event, ev)
	switch {
	case w.reason != "":
		return nil, w.reason
	case w.spec != nil && !w.off && cfg.AppConfigured && ev.Installation == 0:
		return nil, task.NoInstallation
	case tooOld(cfg, ev, now):
		return nil, task.TooOld
	case !ok:
		return nil, task.Scope
	case w.spec == nil:
		return nil, task.Unroutable
	case w.off:
		return nil, task.Scope
	case w.gated && !cfg.SurfacesReady:
		return nil, task.NoGitHubApp
	}
	return w.spec, ""
}

// operator reads for which operator request the event's issue was made. The
// marker counts only in an issue that the App itself made: whoever reads one
// can copy it.
func (c *Config) operator(ev *Event) *task.Operator {
	if c.Operator == nil || ev.Issue.IsPullRequest || ev.Repository.ID == 0 {
		return nil
	}
	if viaApp := c.AppID != 0 && ev.Issue.App == c.AppID; !viaApp && !c.ours(ev.Issue.Author) {
		return nil
	}
	return c.Operator(ev.Repository.ID, ev.Issue.Body)
}

// foreign reports whether the hook is of another App than the source's.
func foreign(cfg *Config, h Headers) bool {
	return cfg.AppID != 0 && h.TargetType == "integration" && h.TargetID != strconv.FormatInt(cfg.AppID, 10)
}

// tooOld reports whether a payload could be one whose delivery was seen and
// forgotten: it is older than the memory of ids reaches, and so is the log.
func tooOld(cfg *Config, ev *Event, now time.Time) bool {
	memory := now.AddDate(0, 0, -cfg.DedupeDays)
	at := ev.occurredAt()
	return cfg.DedupeDays > 0 && !at.IsZero() && at.Before(memory) && cfg.StoreSince.Before(memory)
}

// once reports whether the body of such an event names one occurrence
// (DESIGN §6): a second equal body is then a replay.
func once(event string) bool {
	return event == "issues" || event == "issue_comment" || strings.HasPrefix(event, "pull_request")
}

// plainName cuts an event's name or action for the record, and drops one
// that is no text.
func plainName(s string) string {
	if !isPlain(s) {
		return ""
	}
	return strings.ToValidUTF8(s[:min(len(s), maxEvent)], "")
}
