package ingest

import (
	"context"
	"io"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// DeliveryLog makes a routed delivery durable, exactly once. It stamps the
// task's id and the routing of a delivery with a task, and applies the rule
// of the hook ids itself (DESIGN §5). It tries until ctx ends and never
// beyond. kv.ErrReused is a 409, every other error a 503.
type DeliveryLog interface {
	Accept(ctx context.Context, d task.Delivery) (kv.Accepted, error)
}

// Deliveries reads the log, newest first. Errors: kv.ErrNotFound, kv.ErrCursor.
type Deliveries interface {
	Page(ctx context.Context, q kv.DeliveryQuery) (kv.DeliveryPage, error)
	Find(ctx context.Context, id task.DeliveryID) (kv.Logged, error)
}

// TaskList is the read model of tasks. List answers view.ErrCursor for a
// cursor that it did not give out.
type TaskList interface {
	List(q view.Query) (view.Page, error)
	Find(id task.ID) (view.Item, bool)
	// Entombed finds the installation of a task that is only a tombstone.
	Entombed(id task.ID) (installation int64, ok bool)
}

// TaskStore reads one task's record from the leader; kv.ErrNotFound if there
// is none.
type TaskStore interface {
	Get(ctx context.Context, installation int64, id task.ID) (task.Record, uint64, error)
}

// Commands are what a person may do to a task. On task.ErrState the returned
// record is the one that refused; kv.ErrNotFound if there is none.
type Commands interface {
	Retry(ctx context.Context, installation int64, id task.ID, caller string) (task.Record, error)
	Cancel(ctx context.Context, installation int64, id task.ID, caller, reason string) (task.Record, error)
}

// OutboxList is the read model of the outbox. It answers view.ErrCursor for a
// cursor that it did not give out.
type OutboxList interface {
	Outbox(q view.OutboxQuery) (view.OutboxPage, error)
}

// OutboxStore holds the outbox's records. Find returns nil if there is none.
// Resolve settles one whose outcome is unknown, and returns it with the new
// record of a resend; outbox.ErrState, with the record that refused, where it
// is not unknown; kv.ErrNotFound if there is none.
type OutboxStore interface {
	Find(ctx context.Context, id outbox.ID) (*outbox.Record, error)
	Resolve(ctx context.Context, id outbox.ID, how outbox.Resolution, reason, by string) (outbox.Record, *outbox.Record, error)
}

// Logs opens the whole output of an attempt; fs.ErrNotExist if it is not kept
// on this machine.
type Logs interface {
	OpenLog(id task.ID, attempt int) (io.ReadCloser, error)
}

// Auditor is told of what callers did. Its methods must not block for long.
type Auditor interface {
	// Read notes that caller read what; counts are kept per caller and minute.
	Read(caller, what string)
	// Denied notes a refused request of a remote address.
	Denied(what, remote string)
	// Mutation notes a command, or a delivery id that came with another body.
	Mutation(ctx context.Context, e kv.AuditEntry)
}

// The kinds of audit entries that this package makes, beside reads and denials.
const (
	AuditRetry    = "retry"
	AuditCancel   = "cancel"
	AuditPause    = "pause"
	AuditResume   = "resume"
	AuditConflict = "conflict"
	AuditResolve  = "resolve"
)

// Prober tells how the process and its store are.
type Prober interface {
	// Store returns nil if the store answers.
	Store(ctx context.Context) error
	// Ready returns the conditions that fail, none if all is well.
	Ready(ctx context.Context) []Condition
}

// Condition is something that keeps the process from being ready.
type Condition struct {
	// Name is a short word; the public listener shows it.
	Name string `json:"name"`
	// Message says what is wrong, Next what to do; only Admin shows them.
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// noAudit is the Auditor of a server that was given none.
type noAudit struct{}

func (noAudit) Read(string, string)                     {}
func (noAudit) Denied(string, string)                   {}
func (noAudit) Mutation(context.Context, kv.AuditEntry) {}
