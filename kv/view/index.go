package view

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unique"

	"github.com/google/uuid"
	"github.com/tidwall/btree"

	"github.com/belay-run/belay/kv/task"
)

// entry is one task in the index: fixed fields, interned names and the texts
// that lists show. Everything else stays in the record.
type entry struct {
	id        uuid.UUID
	rev       uint64
	seq       uint64
	inst      int64
	repoID    int64
	updated   int64 // microseconds
	notBefore int64 // microseconds, 0: at once
	since     int64 // nanoseconds of the local clock: eligible here since
	repo      unique.Handle[string]
	familiar  unique.Handle[string]
	title     string
	result    *result
	number    int32
	attempts  int32
	gen       uint32
	created   int32  // days since 1970
	runtime   uint32 // milliseconds of the attempts that ended
	delayed   bool

	stateCode, kindCode, statusCode code
}

// result holds what most tasks do not have.
type result struct {
	status        task.ResultStatus // if no code says it
	kind          task.KindName     // if no code says it
	branch, prURL string
	checkRunURL   string
	prNumber      int
	holder        task.Holder
	supersededBy  task.ID
	rule          unique.Handle[string] // with the group in it; zero without one
}

func (e *entry) status() string {
	if e.result == nil {
		return Status(e.state(), e.resultStatus(), 0)
	}
	return Status(e.state(), e.resultStatus(), e.result.prNumber)
}

// listed reports whether lists show the task (DT-97).
func (e *entry) listed() bool { return e.kind() != task.CommandReply }

func (e *entry) item() Item {
	it := Item{
		ID: task.ID(e.id.String()), InstallationID: e.inst, Repo: e.repo.Value(), Number: int(e.number),
		Title: e.title, State: e.state(), FamiliarID: e.familiar.Value(), Kind: e.kind(),
		Attempts: int(e.attempts), UpdatedAt: task.At(time.UnixMicro(e.updated)), ResultStatus: e.resultStatus(),
	}
	if r := e.result; r != nil {
		it.Branch, it.PRNumber, it.PRURL, it.CheckRunURL = r.branch, r.prNumber, r.prURL, r.checkRunURL
	}
	return it
}

// tree is an ordered set of entries. The view's own lock guards it.
type tree = btree.BTreeG[*entry]

func newTree(less func(a, b *entry) bool) *tree {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16})
}

// byList is the order of lists: updated descending, then id.
func byList(a, b *entry) bool {
	if a.updated != b.updated {
		return a.updated > b.updated
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// bySeq is the order of the queue: oldest delivery first (DT-63).
func bySeq(a, b *entry) bool {
	if a.seq != b.seq {
		return a.seq < b.seq
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// byDue is the order in which delayed tasks become due.
func byDue(a, b *entry) bool {
	if a.notBefore != b.notBefore {
		return a.notBefore < b.notBefore
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// scope names one of the ordered lists a task stands in.
type scope struct {
	kind byte // 'a' all listed, 'h' all hidden, 'i' installation, 'r' its repository, folded, 's' its status
	num  int64
	name unique.Handle[string]
}

// scopes appends the lists that the task stands in; a hidden one only in its
// own, where retention finds it.
func (e *entry) scopes(to []scope) []scope {
	if !e.listed() {
		return append(to, scope{kind: 'h'})
	}
	return append(to, scope{kind: 'a'}, scope{kind: 'i', num: e.inst},
		scope{kind: 'r', num: e.inst, name: intern(task.FoldRepo(e.repo.Value()))}, scope{kind: 's', num: e.inst, name: intern(e.status())})
}

// shape is the part of a record that the index keeps.
type shape struct {
	V              int               `json:"v"`
	ID             task.ID           `json:"id"`
	DeliverySeq    uint64            `json:"delivery_seq"`
	InstallationID int64             `json:"installation_id"`
	RepoID         int64             `json:"repo_id"`
	Repo           string            `json:"repo"`
	FamiliarID     string            `json:"familiar_id"`
	Kind           shapeKind         `json:"kind"`
	State          task.State        `json:"state"`
	Title          string            `json:"title"`
	Number         int               `json:"number"`
	SupersededBy   task.ID           `json:"superseded_by"`
	NotBefore      task.Time         `json:"not_before"`
	Attempts       int               `json:"attempts"`
	ResultStatus   task.ResultStatus `json:"result_status"`
	Branch         string            `json:"branch"`
	PRNumber       int               `json:"pr_number"`
	PRURL          string            `json:"pr_url"`
	CheckRunURL    string            `json:"check_run_url"`
	Tombstone      bool              `json:"tombstone"`
	AttemptLog     []shapeAttempt    `json:"attempt_log"`
	CreatedAt      task.Time         `json:"created_at"`
	Rule           *task.Rule        `json:"rule"`
	UpdatedAt      task.Time         `json:"updated_at"`
}

type shapeKind struct {
	Kind task.KindName `json:"kind"`
}

type shapeAttempt struct {
	N         int         `json:"n"`
	Boot      task.BootID `json:"boot"`
	Nonce     string      `json:"nonce"`
	StartedAt task.Time   `json:"started_at"`
	EndedAt   task.Time   `json:"ended_at"`
}

// runtime is that of the attempts that ended, in milliseconds; of a task that
// ran for longer than 49 days, these.
func (s *shape) runtime() uint32 {
	var sum time.Duration
	for _, a := range s.AttemptLog {
		if !a.StartedAt.IsZero() && a.EndedAt.After(a.StartedAt.Time) {
			sum += a.EndedAt.Sub(a.StartedAt.Time)
		}
	}
	return uint32(min(sum.Milliseconds(), math.MaxUint32))
}

// maxTitle bounds the title kept in memory, in bytes.
const maxTitle = 200

// decode reads a record's value as the index keeps it, and checks that it is
// of the key it stands under.
func decode(value []byte, installation, id string) (shape, error) {
	var s shape
	if err := task.Decode(value, &s, &s.V); err != nil {
		return shape{}, err
	}
	switch {
	case !slices.Contains(task.States, s.State):
		return shape{}, fmt.Errorf("%w: state %q", task.ErrCorrupt, s.State)
	case string(s.ID) != id || strconv.FormatInt(s.InstallationID, 10) != installation:
		return shape{}, fmt.Errorf("%w: it is task %q of installation %d", task.ErrCorrupt, s.ID, s.InstallationID)
	}
	return s, nil
}

func (s *shape) entry(id uuid.UUID, rev uint64) *entry {
	e := &entry{
		id: id, rev: rev, seq: s.DeliverySeq, inst: s.InstallationID, repoID: s.RepoID,
		updated: s.UpdatedAt.UnixMicro(), repo: unique.Make(s.Repo), familiar: unique.Make(s.FamiliarID),
		title: task.Cut(s.Title, maxTitle), number: int32(s.Number), attempts: int32(s.Attempts),
		created: dayOf(s.CreatedAt.Time), runtime: s.runtime(),
		stateCode: codeOf(task.States, s.State), kindCode: codeOf(task.KindNames, s.Kind.Kind),
		statusCode: codeOf(resultStatuses, s.ResultStatus),
	}
	if !s.NotBefore.IsZero() {
		e.notBefore = s.NotBefore.UnixMicro()
	}
	r := result{
		branch: s.Branch, prURL: s.PRURL, checkRunURL: s.CheckRunURL, prNumber: s.PRNumber,
		supersededBy: s.SupersededBy,
	}
	if e.statusCode == 0 {
		r.status = s.ResultStatus
	}
	if e.kindCode == 0 {
		r.kind = s.Kind.Kind
	}
	if n := len(s.AttemptLog); n > 0 && s.State == task.Running && s.AttemptLog[n-1].EndedAt.IsZero() {
		a := s.AttemptLog[n-1]
		r.holder = task.Holder{N: a.N, Boot: a.Boot, Nonce: a.Nonce}
	}
	if s.Rule != nil && s.Rule.Group != "" && e.kind() != task.ReviewPullRequest {
		r.rule = unique.Make(s.Rule.Name + s.Rule.Group) // a name has neither # nor @
	}
	if r != (result{}) {
		e.result = &r
	}
	return e
}
