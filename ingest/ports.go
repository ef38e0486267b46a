package ingest

import (
	"context"
	"io"
	"time"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
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

// Source is what a webhook endpoint verifies and routes by.
type Source struct {
	Config  *github.Config
	Secrets []github.Secret // the newest first
}

// Quotas counts the tasks of installations with a daily cap. Take is asked
// before a task's delivery is stored: not ok, it is over the cap; giveBack, if
// not nil, takes the count back. Its errors are a 503.
type Quotas interface {
	Take(ctx context.Context, installation int64) (giveBack func(context.Context) error, ok bool, err error)
}

// Owners says which source an installation belongs to: the one that names it,
// if nobody did before. Its errors are a 503.
type Owners interface {
	Owner(ctx context.Context, installation int64, source string) (string, error)
}

// anyOwner are the Owners of a server with one source.
type anyOwner struct{}

func (anyOwner) Owner(_ context.Context, _ int64, source string) (string, error) { return source, nil }

// Deliveries reads the log, newest first. Find and FindAll look among those
// that the query would list. Errors: kv.ErrNotFound, kv.ErrCursor.
type Deliveries interface {
	Page(ctx context.Context, q kv.DeliveryQuery) (kv.DeliveryPage, error)
	Find(ctx context.Context, id task.DeliveryID, q kv.DeliveryQuery) (kv.Logged, error)
	// FindAll finds each delivery of an id: several where it came through
	// several hooks or sources.
	FindAll(ctx context.Context, id task.DeliveryID, q kv.DeliveryQuery) ([]kv.Logged, error)
	// Get reads the delivery at a sequence.
	Get(ctx context.Context, seq uint64) (kv.Logged, error)
}

// TaskList is the read model of tasks. List answers view.ErrCursor for a
// cursor that it did not give out.
type TaskList interface {
	List(q view.Query) (view.Page, error)
	Find(id task.ID) (view.Item, bool)
	// Waits says why a queued task has not begun.
	Waits(id task.ID) view.Wait
	// Entombed finds the installation of a task that is only a tombstone.
	Entombed(id task.ID) (installation int64, ok bool)
}

// UsageList is the read model of what was done. It answers view.ErrCursor for
// a cursor that it did not give out.
type UsageList interface {
	Usage(q view.UsageQuery) (view.UsagePage, error)
}

// Places tells which installations have tasks, by id, and whose they are.
type Places interface {
	Installations() []int64
	// Account is whom the installation is for, "" if nobody knows.
	Account(installation int64) string
}

// Trail reads the audit trail, newest first; kv.ErrCursor for a cursor that it
// did not give out.
type Trail interface {
	Page(ctx context.Context, q kv.AuditQuery) (kv.AuditPage, error)
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

// OperatorStore keeps operator tasks. Read returns nil where there is none of
// the owner's; kv.ErrPoisoned, to the owner only, where its events are not
// belay's. Tenant is the one that an id was proposed under.
type OperatorStore interface {
	Propose(ctx context.Context, o operator.Owner, id operator.RequestID, in operator.Intent) (kv.OperatorResult, error)
	Confirm(ctx context.Context, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error)
	Read(ctx context.Context, o operator.Owner, id operator.RequestID) (*operator.Task, error)
	Tenant(ctx context.Context, id operator.RequestID) (tenant string, ok bool, err error)
}

// Tenancy says which tenant a repository belongs to now; an error where that
// is not to be known.
type Tenancy interface {
	RepoTenant(ctx context.Context, repo string) (string, error)
}

// Nonces uses up the nonces of signed requests; kv.ErrExists: it was before.
type Nonces interface {
	Use(ctx context.Context, key, nonce string) error
}

// Releases records consents to heads of pull requests; kv.ErrConflict where
// another came meanwhile, existing where it was recorded before.
type Releases interface {
	Approve(ctx context.Context, repoID int64, number int, head string, owner operator.Owner, at time.Time) (r kv.Release, existing bool, err error)
}

// Pull is a pull request that belay opened for an issue.
type Pull struct {
	RepoID int64
	Issue  int
}

// Pulls finds pull requests that belay opened; kv.ErrNotFound if it did not.
type Pulls interface {
	Pull(ctx context.Context, repo string, number int) (Pull, error)
}

// Waker has the consumer of operator tasks look at one again.
type Waker interface {
	Wake(ctx context.Context, tenant string, id operator.RequestID) error
}

// Events keeps what is reported of streams. Append answers kv.ErrReserved for
// a stream of the operator tasks.
type Events interface {
	Append(ctx context.Context, e kv.StreamEvent) (duplicate bool, err error)
	Last(ctx context.Context, stream string, n int) ([]kv.StreamEvent, error)
}

// Logs opens the whole output of an attempt; fs.ErrNotExist if it is not kept
// on this machine.
type Logs interface {
	OpenLog(id task.ID, attempt int) (io.ReadCloser, error)
}

// Auditor is told of what callers did. Its methods must not block for long.
type Auditor interface {
	// Read notes that caller, who sees one installation or (0) all, read what;
	// counts are kept per caller and minute.
	Read(caller string, installation int64, what string)
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
	AuditReplay   = "replay"

	AuditPropose   = "operator_propose"
	AuditConfirm   = "operator_confirm"
	AuditReconcile = "operator_reconcile"
	AuditRelease   = "operator_release"
	AuditEvent     = "event"
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

func (noAudit) Read(string, int64, string)              {}
func (noAudit) Denied(string, string)                   {}
func (noAudit) Mutation(context.Context, kv.AuditEntry) {}
