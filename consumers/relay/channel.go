package relay

import (
	"context"
	"time"

	"github.com/belay-run/belay/kv/outbox"
)

// Message is what a channel is to send.
type Message struct {
	// ID is the record's; Key is the same over tries and resends, for the
	// recipient to tell repetitions by.
	ID, Key outbox.ID
	Channel string
	To      string
	TaskID  string
	// Payload is JSON, byte for byte as it was when the record was created.
	Payload        []byte
	InstallationID int64
	Repo           string
}

// Verdict is what is known after a try.
type Verdict string

// The verdicts. A channel that is not sure says Unknown.
const (
	// Unknown: the recipient may have it. The zero verdict counts as this.
	Unknown Verdict = "unknown"
	// Delivered: the recipient accepted it.
	Delivered Verdict = "delivered"
	// Refused: the recipient certainly did not take it; another try may help.
	Refused Verdict = "refused"
	// Final: the recipient certainly did not take it, and never will.
	Final Verdict = "final"
	// Gone: Final, and the recipient wants nothing more through this channel.
	Gone Verdict = "gone"
	// Unrenderable: the payload is not what the channel can send.
	Unrenderable Verdict = "unrenderable"
)

// Verdicts lists every verdict.
var Verdicts = []Verdict{Unknown, Delivered, Refused, Final, Gone, Unrenderable}

// Answer is the outcome of one try.
type Answer struct {
	Verdict Verdict
	// Reason is the recipient's answer or the error, for people.
	Reason string
	// RetryAfter is how long the recipient asks to wait, with Refused.
	RetryAfter time.Duration
}

// Channel is a way out. Deliver makes one try and must return soon after ctx
// ends. Idempotent says that sending a message twice changes nothing more than
// sending it once.
type Channel interface {
	Deliver(ctx context.Context, m Message) Answer
	Idempotent() bool
}

func message(r outbox.Record) Message {
	return Message{
		ID: r.ID, Key: r.Key(), Channel: r.Channel, To: r.To, TaskID: r.TaskID, Payload: r.Payload,
		InstallationID: r.InstallationID, Repo: r.Repo,
	}
}
