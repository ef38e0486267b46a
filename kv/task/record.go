package task

import "fmt"

// State is where a task stands.
type State string

// The states of a record (DESIGN §7). `received` (in the log, not yet
// admitted) and `ignored` (a delivery without a task) are no record states.
const (
	// Queued waits for a worker; admission, retry, release and recovery put it there.
	Queued State = "queued"
	// Running is held by one attempt of one boot; only a claim puts it there.
	Running State = "running"
	// Completed ended with a result; the holder of the attempt puts it there.
	Completed State = "completed"
	// Failed ended without one, or spent its budget; holder or recovery.
	Failed State = "failed"
	// Superseded was overtaken by another task; admission, a claim or a holder.
	Superseded State = "superseded"
	// Cancelled was ended by a person.
	Cancelled State = "cancelled"
)

// States lists every state of a record.
var States = []State{Queued, Running, Completed, Failed, Superseded, Cancelled}

// Terminal reports whether no automatic step moves a task out of the state.
func (s State) Terminal() bool { return s != Queued && s != Running }

// Outcome says how an attempt ended.
type Outcome string

// The closed list of attempt outcomes.
const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeFailed      Outcome = "failed"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeReleased    Outcome = "released"
	OutcomeParked      Outcome = "parked"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeSuperseded  Outcome = "superseded"
	OutcomeTimeout     Outcome = "timeout"
	OutcomeInfra       Outcome = "infra"
)

// Outcomes lists every attempt outcome.
var Outcomes = []Outcome{
	OutcomeCompleted, OutcomeFailed, OutcomeInterrupted, OutcomeReleased, OutcomeParked, OutcomeCancelled,
	OutcomeSuperseded, OutcomeTimeout, OutcomeInfra,
}

// Spent reports whether the outcome uses up one of the task's tries:
// interrupted and retryable failed ones do (DESIGN §7).
func (o Outcome) Spent() bool {
	return o == OutcomeInterrupted || o == OutcomeFailed || o == OutcomeTimeout || o == OutcomeInfra
}

// BootID names one life of one process; random, made at start.
type BootID string

// Attempt is one run of a task by one worker process (DT-38). An attempt
// without EndedAt is open; at most the last one is.
type Attempt struct {
	N         int     `json:"n"`
	Worker    string  `json:"worker"`
	Boot      BootID  `json:"boot"`
	Nonce     string  `json:"nonce"`
	StartedAt Time    `json:"started_at"`
	EndedAt   Time    `json:"ended_at,omitzero"`
	Outcome   Outcome `json:"outcome,omitempty"`
	// Detail is redacted text for people: why it ended so.
	Detail string `json:"detail,omitempty"`
	// Tail is the redacted end of the command's output.
	Tail string `json:"tail,omitempty"`
}

// Intent is an outbox entry that a terminal record asks for; the outbox
// record `<task id>-<n>` is derived from it (DESIGN §8).
type Intent struct {
	N       int    `json:"n"`
	Channel string `json:"channel"`
	To      string `json:"to"`
	Payload []byte `json:"payload"`
}

// SurfaceState says what a task shows on GitHub: nothing yet (""), something
// that is open, or only what is closed.
type SurfaceState string

// The states of a task's surfaces.
const (
	SurfacesOpen   SurfaceState = "open"
	SurfacesClosed SurfaceState = "closed"
)

// Record is the whole state of one task, and what decides (DESIGN §2). It is
// one value of bucket STATE under task.<installation>.<id>, JSON, at most
// MaxRecord bytes; every change is a compare-and-set on it.
type Record struct {
	V              int          `json:"v"`
	ID             ID           `json:"id"`
	Source         string       `json:"source"`
	DeliveryID     DeliveryID   `json:"delivery_id"`
	DeliverySeq    uint64       `json:"delivery_seq"`
	InstallationID int64        `json:"installation_id"`
	RepoID         int64        `json:"repo_id,omitempty"`
	Repo           string       `json:"repo"`
	CloneURL       string       `json:"clone_url,omitempty"`
	DefaultBranch  string       `json:"default_branch,omitempty"`
	FamiliarID     string       `json:"familiar_id"`
	Kind           Kind         `json:"kind,omitzero"`
	Commander      string       `json:"commander,omitempty"`
	State          State        `json:"state"`
	SupersedeKey   string       `json:"supersede_key,omitempty"` // owner/repo#n, for people
	Title          string       `json:"title"`
	Number         int          `json:"number,omitempty"`
	HeadSHA        string       `json:"head_sha,omitempty"`
	Reason         string       `json:"reason,omitempty"` // why superseded, cancelled or failed
	SupersededBy   ID           `json:"superseded_by,omitempty"`
	BeatenBy       *Order       `json:"beaten_by,omitempty"` // the order of the review that won
	NotBefore      Time         `json:"not_before,omitzero"`
	Attempts       int          `json:"attempts"`
	BudgetFrom     int          `json:"budget_from,omitempty"`  // attempts up to this one no longer count as spent
	SpentBefore    int          `json:"spent_before,omitempty"` // spent ones that the attempt log has forgotten
	ResultStatus   ResultStatus `json:"result_status,omitempty"`
	Branch         string       `json:"branch,omitempty"`
	PRNumber       int          `json:"pr_number,omitempty"`
	PRURL          string       `json:"pr_url,omitempty"`
	CheckRunURL    string       `json:"check_run_url,omitempty"`
	Summary        string       `json:"summary,omitempty"`
	Surfaces       SurfaceState `json:"surfaces,omitempty"`
	Operator       *Operator    `json:"operator,omitempty"`
	Rule           *Rule        `json:"rule,omitempty"`
	// Unshown is a result that GitHub did not take when the task ended, for
	// whoever closes its surfaces; its shape is theirs.
	Unshown    []byte    `json:"unshown,omitempty"`
	Intents    []Intent  `json:"intents,omitempty"`
	OutboxNext int       `json:"outbox_next,omitempty"` // number of the next intent, over all ends of the task
	AttemptLog []Attempt `json:"attempt_log,omitempty"`
	// Tombstone marks what is left of a task whose retention is over.
	Tombstone bool `json:"tombstone,omitempty"`
	CreatedAt Time `json:"created_at"`
	UpdatedAt Time `json:"updated_at"`
}

// MaxRecord is the largest encoded record in bytes; free text is cut to fit.
const MaxRecord = 512 << 10

// MaxText is the largest free text kept in a record's kind, in bytes.
const MaxText = 64 << 10

// maxAttemptLog bounds the attempts a record remembers; the oldest go first.
const maxAttemptLog = 64

// ResultStatus is what the command said of its own result.
type ResultStatus string

// The result statuses of the contract.
const (
	ResultSuccess    ResultStatus = "success"
	ResultPartial    ResultStatus = "partial"
	ResultFailure    ResultStatus = "failure"
	ResultNeedsInput ResultStatus = "needs_input"
)

// New makes the queued record of a delivery's task, stored at sequence seq.
func New(d Delivery, seq uint64, at Time) (Record, error) {
	if d.Task == nil {
		return Record{}, fmt.Errorf("delivery %s has no task", d.ID)
	}
	s := d.Task
	r := Record{
		V: Version, ID: s.ID, Source: d.Source, DeliveryID: d.ID, DeliverySeq: seq,
		InstallationID: d.InstallationID, RepoID: d.RepoID, Repo: d.Repo,
		CloneURL: s.CloneURL, DefaultBranch: s.DefaultBranch, FamiliarID: s.FamiliarID,
		Kind: s.Kind, Commander: s.Commander, State: Queued, Title: s.Kind.Title(), Number: s.Kind.Number(),
		HeadSHA: s.HeadSHA, Operator: s.Operator, Rule: s.Rule, CreatedAt: at, UpdatedAt: at,
	}
	switch {
	case s.Kind.Name == ReviewPullRequest:
		r.SupersedeKey = fmt.Sprintf("%s#%d", d.Repo, s.Kind.PRNumber)
	case s.Rule != nil && s.Rule.Group != "":
		r.SupersedeKey = d.Repo + s.Rule.Group
	}
	return r, nil
}

// Key returns the supersede key of a review, or of a task in a rule's group;
// false for any other task.
func (r *Record) Key() (SupersedeKey, bool) {
	k := SupersedeKey{InstallationID: r.InstallationID, RepoID: r.RepoID, FamiliarID: r.FamiliarID}
	switch {
	case r.Kind.Name == ReviewPullRequest:
		k.Number = r.Kind.PRNumber
	case r.Rule != nil && r.Rule.Group != "":
		k.Rule, k.Group = r.Rule.Name, r.Rule.Group
	default:
		return SupersedeKey{}, false
	}
	return k, true
}

// Open returns the attempt in progress, nil when there is none.
func (r *Record) Open() *Attempt {
	if n := len(r.AttemptLog); n > 0 && r.AttemptLog[n-1].EndedAt.IsZero() {
		return &r.AttemptLog[n-1]
	}
	return nil
}

// Spent counts the tries used up since the budget was last reset.
func (r *Record) Spent() int {
	return r.SpentBefore + r.spent(r.AttemptLog)
}

func (r *Record) spent(log []Attempt) int {
	n := 0
	for _, a := range log {
		if a.N > r.BudgetFrom && a.Outcome.Spent() {
			n++
		}
	}
	return n
}

// Cut returns s cut to at most max bytes at a rune's border, with a note.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const note = "\n… [cut by belay]"
	end := max(0, limit-len(note))
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + note
}
