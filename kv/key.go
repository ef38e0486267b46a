package kv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/belay-run/belay/kv/task"
)

// Names of the streams and the bucket, as in streams.json.
const (
	StreamWebhooks = "WEBHOOKS"
	StreamState    = "KV_STATE"
	StreamAudit    = "AUDIT"
	BucketState    = "STATE"
	ConsumerAdmit  = "admit"
	ConsumerTasks  = "tasks"
	// ConsumerReleases is told of what happens to pull requests.
	ConsumerReleases = "releases"
)

// First tokens of the keys of bucket STATE (DESIGN §4).
const (
	PrefixTask         = "task"
	PrefixSupersede    = "supersede"
	PrefixWorker       = "worker"
	PrefixSlots        = "slots"
	PrefixQuota        = "quota"
	PrefixSeen         = "seen"
	PrefixInstallation = "installation"
	PrefixControl      = "control"
	PrefixLease        = "lease"
	PrefixNonce        = "nonce"
	PrefixRelease      = "release"
	PrefixCursor       = "cursor"
	PrefixRedelivery   = "redelivery"
)

// ControlPause is the key that stops claims everywhere while it exists.
const ControlPause = PrefixControl + ".pause"

// Key joins tokens into a key of the bucket or a subject. It is injective:
// bytes outside [A-Za-z0-9_-] become =XX and an empty token a lone "=", so
// no two token lists give one key (X12).
func Key(tokens ...string) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte('.')
		}
		writeToken(&b, t)
	}
	return b.String()
}

func writeToken(b *strings.Builder, t string) {
	if t == "" {
		b.WriteByte('=')
		return
	}
	for i := range len(t) {
		if c := t[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(b, "=%02X", c)
		}
	}
}

func plain(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// TaskKey is the key of a task's record.
func TaskKey(installation int64, id task.ID) string {
	return Key(PrefixTask, num(installation), string(id))
}

// SupersedeKey is the key of the pointer to the newest task of a group.
func SupersedeKey(k task.SupersedeKey) string {
	tokens := []string{PrefixSupersede, num(k.InstallationID), num(k.RepoID), strconv.Itoa(k.Number), k.FamiliarID}
	if k.Rule != "" {
		tokens = append(tokens, k.Rule, k.Group)
	}
	return Key(tokens...)
}

// WorkerKey is the key of a boot's beats.
func WorkerKey(boot task.BootID) string { return Key(PrefixWorker, string(boot)) }

// SeenKey is the key of the replay guard for a body.
func SeenKey(source, sha256 string) string { return Key(PrefixSeen, source, sha256) }

// InstallationKey is the key of what belay knows of an installation.
func InstallationKey(id int64) string { return Key(PrefixInstallation, num(id)) }

// NonceKey is the key of a nonce that a signing key used up.
func NonceKey(key, sha256 string) string { return Key(PrefixNonce, key, sha256) }

// ReleaseKey is the key of the consent to a pull request's head.
func ReleaseKey(repoID int64, number int) string {
	return Key(PrefixRelease, num(repoID), strconv.Itoa(number))
}

// RedeliveryCursorKey is the key of how far GitHub's log of a source's
// deliveries was read.
func RedeliveryCursorKey(source string) string { return Key(PrefixCursor, "redeliver", source) }

// RedeliveryKey is the key of a delivery that GitHub is asked for again.
func RedeliveryKey(source string, id task.DeliveryID) string {
	return Key(PrefixRedelivery, source, string(id))
}

// EventSubject is where the events of one stream of EVENTS are.
func EventSubject(stream string) string { return Key("event", stream) }

// Subject is where a delivery stands in stream WEBHOOKS:
// webhook.<installation>.<repo>.<task|ignored>.<kind|reason>.
func Subject(d *task.Delivery) string {
	what, which := "ignored", ""
	if d.Task != nil {
		what, which = "task", string(d.Task.Kind.Name)
	} else if r, ok := d.Routing.Reason(); ok {
		which = string(r)
	}
	return Key("webhook", num(d.InstallationID), num(d.RepoID), what, which)
}
