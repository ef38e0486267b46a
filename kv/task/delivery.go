package task

import "strings"

// Version is the `v` of the deliveries and records this build writes. A
// reader upcasts older ones and refuses newer ones (DT-20).
const Version = 1

// DeliveryID is GitHub's X-GitHub-Delivery, a GUID in practice.
type DeliveryID string

// ID is a task's id: a UUIDv5 of (source, message id); it is the session id too.
type ID string

// ReplayID is the id of the delivery that a replay of id makes: always the
// same, so that there is one, and none that a webhook can have.
func ReplayID(id DeliveryID) DeliveryID { return replayPrefix + id }

const replayPrefix = "replay:"

// OriginalOf returns of which delivery a replay is, or false and id itself.
func OriginalOf(id DeliveryID) (DeliveryID, bool) {
	original, ok := strings.CutPrefix(string(id), replayPrefix)
	return DeliveryID(original), ok
}

// Routing is a delivery's disposition: `task:<id>` or `ignored:<reason>`.
type Routing string

// ToTask is the disposition of a delivery that made the task id.
func ToTask(id ID) Routing { return Routing("task:" + string(id)) }

// Ignored is the disposition of a delivery without a task.
func Ignored(r Reason) Routing { return Routing("ignored:" + string(r)) }

// Task returns the task's id, or false for an ignored delivery.
func (r Routing) Task() (ID, bool) {
	id, ok := strings.CutPrefix(string(r), "task:")
	return ID(id), ok
}

// Reason returns why a delivery made no task, or false if it made one.
func (r Routing) Reason() (Reason, bool) {
	s, ok := strings.CutPrefix(string(r), "ignored:")
	return Reason(s), ok
}

// Reason says why a delivery was ignored; the list is closed.
type Reason string

// The ignore reasons in the order in which the first match wins.
const (
	Ping                Reason = "ping"
	ForeignApp          Reason = "foreign_app"
	ForeignInstallation Reason = "foreign_installation"
	Self                Reason = "self"
	UnsupportedEvent    Reason = "unsupported_event"
	UnsupportedAction   Reason = "unsupported_action"
	RefDeleted          Reason = "ref_deleted"
	Closed              Reason = "closed"
	NoInstallation      Reason = "no_installation"
	InstallationDeleted Reason = "installation_deleted"
	TooOld              Reason = "too_old"
	Scope               Reason = "scope"
	NoGitHubApp         Reason = "no_github_app"
	QuotaExceeded       Reason = "quota_exceeded"
	Unroutable          Reason = "unroutable"
)

// Reasons lists every ignore reason in order of precedence.
var Reasons = []Reason{
	Ping, ForeignApp, ForeignInstallation, Self, UnsupportedEvent, UnsupportedAction, RefDeleted, Closed,
	NoInstallation, InstallationDeleted, TooOld, Scope, NoGitHubApp, QuotaExceeded, Unroutable,
}

// Delivery is one webhook as it stands in the log (DT-25): routing
// coordinates, the SHA-256 of the raw body, the disposition and, where it is
// a task, the task. The body itself is never stored (DT-12).
type Delivery struct {
	V      int        `json:"v"`
	Source string     `json:"source"`
	ID     DeliveryID `json:"delivery_id"`
	HookID string     `json:"hook_id,omitempty"`
	// ReplayOf is the delivery whose payload was routed again for this one.
	ReplayOf       DeliveryID `json:"replay_of,omitempty"`
	Event          string     `json:"event"`
	Action         string     `json:"action,omitempty"`
	InstallationID int64      `json:"installation_id,omitempty"`
	RepoID         int64      `json:"repo_id,omitempty"`
	Repo           string     `json:"repo,omitempty"`
	Number         int        `json:"number,omitempty"`
	PayloadHash    string     `json:"payload_hash"`
	Routing        Routing    `json:"routing"`
	ReceivedAt     Time       `json:"received_at"`
	Task           *Spec      `json:"task,omitempty"`
}

// Spec is the task that routing decided on; admission makes a Record of it.
type Spec struct {
	ID         ID     `json:"id,omitempty"`
	FamiliarID string `json:"familiar_id"`
	Kind       Kind   `json:"kind"`
	Commander  string `json:"commander,omitempty"`
	HeadSHA    string `json:"head_sha,omitempty"`
	// CloneURL and DefaultBranch are the repository's own, from the payload.
	CloneURL      string `json:"clone_url,omitempty"`
	DefaultBranch string `json:"default_branch,omitempty"`
	// Review is set for a task that supersedes at admission: a review that
	// nobody commanded (DT-93), or a task of a rule's group.
	Review *Review `json:"review,omitempty"`
	// Once marks events whose body names a single occurrence, for which a
	// repeated body is a replay (DESIGN §6).
	Once bool `json:"once,omitempty"`
	// Operator is set if the issue carries a verified operator marker.
	Operator *Operator `json:"operator,omitempty"`
	// Rule is set if a configured rule made the task.
	Rule *Rule `json:"rule,omitempty"`
}

// Operator names the request, and its attempt, that a task's issue was made
// for.
type Operator struct {
	Tenant    string `json:"tenant"`
	RequestID string `json:"request_id"`
	AttemptID string `json:"attempt_id"`
}

// Review is what orders the tasks under one supersede key.
type Review struct {
	// Before is the head that this push replaced, "" when the event has none.
	Before string `json:"before,omitempty"`
	// UpdatedAt is the pull request's own updated_at, or when the push was.
	UpdatedAt Time `json:"updated_at"`
}

// MessageID is the id under which the log keeps a delivery once: the bare
// delivery id for the source `default`, else `<source>:<delivery id>`.
func MessageID(source string, id DeliveryID) string {
	if source == DefaultSource {
		return string(id)
	}
	return source + ":" + string(id)
}

// DefaultSource is the source behind /webhook.
const DefaultSource = "default"
