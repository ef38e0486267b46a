package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// Kinds of audit entries about what leaves through the outbox (OB-40).
const (
	auditDelivered = "channel_delivered"
	auditFailed    = "delivery_failed"
	auditUnknown   = "delivery_unknown"
	auditDisabled  = "channel_disabled"
)

// deriveTimeout bounds how long the end of a task waits for its outbox
// records: the relay's sweep makes those that are missing.
const deriveTimeout = 5 * time.Second

// openOutbox binds the outbox to the ends of tasks: whoever ends one writes
// its intents with it, and makes their records at once.
func (a *App) openOutbox(ctx context.Context) error {
	var err error
	if a.outbox, err = kv.OpenOutboxStore(ctx, a.js, a.o.Now); err != nil {
		return err
	}
	a.outbox.SetHooks(a.o.StoreHooks)
	a.store.SetClosing(kv.Closing{Intents: a.intents, Ended: func(ctx context.Context, r task.Record) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deriveTimeout)
		defer cancel()
		if err := a.outbox.Derive(ctx, r); err != nil {
			a.log.Warn("outbox records are not made yet, the next sweep makes them", "class", "derive", "task_id", r.ID, "err", err)
		}
	}})
	return nil
}

// Channels that close what a task shows on GitHub, from its record.
const (
	channelCheck   = "github:check"
	channelComment = "github:comment"
	// channelRelease holds the pull request that a task opened.
	channelRelease = "github:release"
)

// ended names the task whose surfaces are to be closed; it is the payload of
// the two channels above.
type ended struct {
	InstallationID int64   `json:"installation_id"`
	TaskID         task.ID `json:"task_id"`
}

// intents are what is to be sent now that a task has ended: its event, and
// the closing of what it shows on GitHub unless its holder did that already.
// Replies to commands are no work of anybody's and tell no callback.
func (a *App) intents(r task.Record, n int) []task.Intent {
	var out []task.Intent
	if cb, ok := callback(a.conf(), r.FamiliarID); ok && r.Kind.Name != task.CommandReply {
		in, err := relay.CallbackIntent(r, n, cb, a.label(cb))
		if err != nil {
			a.log.Error("callback of a task cannot be made", "class", "intents", "task_id", r.ID, "err", err)
		} else {
			out = append(out, in)
		}
	}
	payload, _ := json.Marshal(ended{r.InstallationID, r.ID}) // two plain fields always encode
	if c := a.o.Config; consumers.Held(&r) && c.GitHub.AppID != 0 && c.Operator.Repo != "" {
		out = append(out, task.Intent{N: n + len(out), Channel: channelRelease, To: fmt.Sprintf("%s#%d", r.Repo, r.PRNumber), Payload: payload})
	}
	if r.Surfaces != task.SurfacesOpen {
		return out
	}
	out = append(out, task.Intent{N: n + len(out), Channel: channelCheck, To: fmt.Sprintf("%s@%.12s", r.Repo, r.HeadSHA), Payload: payload})
	if r.Number != 0 {
		out = append(out, task.Intent{N: n + len(out), Channel: channelComment, To: fmt.Sprintf("%s#%d", r.Repo, r.Number), Payload: payload})
	}
	return out
}

// callback is the name of a familiar's callback, if it has one.
func callback(c *config.Config, familiar string) (string, bool) {
	f, ok := c.FamiliarByID(familiar)
	return f.Callback, ok && f.Callback != ""
}

// label is what people see of where a callback goes.
func (a *App) label(name string) string {
	if cb, ok := a.conf().CallbackByName(name); ok {
		return relay.Label(cb.URL)
	}
	return name
}

// startRelay starts what sends. It is stopped after the worker, whose last
// results it still sends.
func (a *App) startRelay(context.Context) error {
	if !a.o.Config.Relays() {
		return nil
	}
	r, err := relay.New(relay.Options{
		Tracer: a.tracer, Store: a.outbox, View: a.view, JS: a.js, Boot: a.o.Boot, Alone: a.o.Config.Embedded(),
		Channel: a.channel,
		Derive:  relay.Deriver(a.view, a.store, a.outbox), Restore: a.restore,
		Finished: a.finished,
		Disabled: func(channel, reason string) { a.audit.Record(auditDisabled, "", "", channel+": "+reason) },
		Redact:   a.redact, Logger: a.log, Now: a.o.Now, Registerer: a.reg, Waits: a.o.RelayWaits,
	})
	if err != nil {
		return err
	}
	a.relay.Store(r)
	r.Start()
	a.cleanups.push("relay", func(ctx context.Context) error {
		fctx, cancel := context.WithTimeout(ctx, repliesTimeout)
		defer cancel()
		if err := r.Flush(fctx); err != nil {
			a.log.Info("replies stay in the outbox for the next start", "err", err)
		}
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
		defer cancel()
		return r.Stop(sctx)
	})
	return nil
}

const (
	// repliesTimeout is how long a stop waits for replies that could be sent now.
	repliesTimeout = 5 * time.Second
	// relayTimeout is how long it waits for what is being sent: longer than a
	// callback may take by default, so that a stop leaves nothing unknown.
	relayTimeout = 12 * time.Second
)

// relayed notes how a reply left (OB-40).
func (a *App) relayed(r outbox.Record, v relay.Verdict) {
	detail := fmt.Sprintf("%s to %s, outbox %s, %s after %d attempts", r.Channel, r.To, r.ID, r.Status, r.Attempts)
	if r.LastError != "" {
		detail += ": " + r.LastError
	}
	kind := auditDelivered
	switch {
	case r.Status == outbox.Failed:
		kind = auditFailed
	case v == relay.Unknown:
		kind = auditUnknown
	}
	a.audit.Record(kind, task.ID(r.TaskID), r.Repo, detail)
}
