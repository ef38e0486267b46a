package ingest

import (
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// wireItem is one task of a list (REQUIREMENTS §API, DT-82).
type wireItem struct {
	ID           task.ID   `json:"id"`
	Repo         string    `json:"repo"`
	IssueNumber  int       `json:"issueNumber,omitempty"`
	IssueTitle   string    `json:"issueTitle"`
	Branch       string    `json:"branch,omitempty"`
	PRNumber     int       `json:"prNumber,omitempty"`
	PRURL        string    `json:"prUrl,omitempty"`
	Status       string    `json:"status"`
	FamiliarID   string    `json:"familiarId"`
	FamiliarName string    `json:"familiarName"`
	SessionID    task.ID   `json:"sessionId"`
	UpdatedAt    task.Time `json:"updatedAt"`
	CheckRunURL  string    `json:"checkRunUrl,omitempty"`
}

func (s *Server) familiarName(id string) string {
	if s.o.FamiliarName != nil {
		if name := s.o.FamiliarName(id); name != "" {
			return name
		}
	}
	return id
}

func (s *Server) item(i *view.Item) wireItem {
	return wireItem{
		ID: i.ID, Repo: i.Repo, IssueNumber: i.Number, IssueTitle: i.Title, Branch: i.Branch,
		PRNumber: i.PRNumber, PRURL: i.PRURL, Status: view.Status(i.State, i.ResultStatus, i.PRNumber),
		FamiliarID: i.FamiliarID, FamiliarName: s.familiarName(i.FamiliarID), SessionID: i.ID,
		UpdatedAt: i.UpdatedAt, CheckRunURL: i.CheckRunURL,
	}
}

// itemOf is item for a record.
func (s *Server) itemOf(r *task.Record) wireItem {
	return s.item(&view.Item{
		ID: r.ID, Repo: r.Repo, Number: r.Number, Title: r.Title, Branch: r.Branch, PRNumber: r.PRNumber,
		PRURL: r.PRURL, State: r.State, ResultStatus: r.ResultStatus, FamiliarID: r.FamiliarID,
		UpdatedAt: r.UpdatedAt, CheckRunURL: r.CheckRunURL,
	})
}

// wireTask is one task as a whole: its item and everything of its record
// that is for people.
type wireTask struct {
	wireItem
	State        string            `json:"state"`
	ResultStatus task.ResultStatus `json:"resultStatus,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	Summary      string            `json:"summary,omitempty"`
	SupersededBy task.ID           `json:"supersededBy,omitempty"`
	SupersedeKey string            `json:"supersedeKey,omitempty"`
	NotBefore    task.Time         `json:"notBefore,omitzero"`
	// Waits is why a queued one has not begun, one of view.Waits.
	Waits view.Wait `json:"waits,omitempty"`
	// Kind is the record's own, tagged and in snake_case.
	Kind           task.Kind     `json:"kind"`
	Source         string        `json:"source"`
	InstallationID int64         `json:"installationId"`
	HeadSHA        string        `json:"headSha,omitempty"`
	Commander      string        `json:"commander,omitempty"`
	CreatedAt      task.Time     `json:"createdAt"`
	Delivery       wireOrigin    `json:"delivery"`
	Attempts       []wireAttempt `json:"attempts"`
	Outbox         []wireOutbox  `json:"outbox"`
	// Events are the newest that were reported to the task's stream.
	Events []wireEvent `json:"events"`
}

// wireOrigin names the delivery that a task came from.
type wireOrigin struct {
	ID  task.DeliveryID `json:"id"`
	Seq uint64          `json:"seq"`
}

type wireAttempt struct {
	N         int          `json:"n"`
	Worker    string       `json:"worker"`
	StartedAt task.Time    `json:"startedAt"`
	EndedAt   task.Time    `json:"endedAt,omitzero"`
	Outcome   task.Outcome `json:"outcome,omitempty"`
	Detail    string       `json:"detail,omitempty"`
	Tail      string       `json:"tail,omitempty"`
}

func (s *Server) taskOf(r *task.Record) wireTask {
	t := wireTask{
		wireItem: s.itemOf(r), State: string(r.State), ResultStatus: r.ResultStatus, Reason: r.Reason, Summary: r.Summary,
		SupersededBy: r.SupersededBy, SupersedeKey: r.SupersedeKey, NotBefore: r.NotBefore, Kind: r.Kind, Source: r.Source,
		InstallationID: r.InstallationID, HeadSHA: r.HeadSHA, Commander: r.Commander, CreatedAt: r.CreatedAt,
		Delivery: wireOrigin{ID: r.DeliveryID, Seq: r.DeliverySeq},
		Attempts: make([]wireAttempt, 0, len(r.AttemptLog)), Outbox: []wireOutbox{}, Events: []wireEvent{},
	}
	for _, a := range r.AttemptLog {
		t.Attempts = append(t.Attempts, wireAttempt{
			N: a.N, Worker: a.Worker, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Outcome: a.Outcome, Detail: a.Detail, Tail: a.Tail,
		})
	}
	return t
}

// stateReceived is the state and status of a task that the log holds and
// admission has not seen yet; it is no state of a record.
const stateReceived = "received"

// received shows a task of which there is only the delivery.
func (s *Server) received(l *kv.Logged) (wireTask, error) {
	r, err := task.New(l.Delivery, l.Seq, l.ReceivedAt)
	if err != nil {
		return wireTask{}, err
	}
	t := s.taskOf(&r)
	t.State, t.Status = stateReceived, stateReceived
	return t, nil
}

// wireDelivery is one delivery of the log.
type wireDelivery struct {
	ID           task.DeliveryID `json:"id"`
	Source       string          `json:"source"`
	Event        string          `json:"event"`
	Action       string          `json:"action,omitempty"`
	Installation int64           `json:"installation,omitempty"`
	Repo         string          `json:"repo,omitempty"`
	Routing      task.Routing    `json:"routing"`
	PayloadHash  string          `json:"payloadHash"`
	ReceivedAt   task.Time       `json:"receivedAt"`
	Seq          uint64          `json:"seq"`
	// ReplayOf is the delivery that was routed again for this one.
	ReplayOf task.DeliveryID `json:"replayOf,omitempty"`
}

func deliveryOf(l *kv.Logged) wireDelivery {
	return wireDelivery{
		ID: l.ID, Source: l.Source, Event: l.Event, Action: l.Action, Installation: l.InstallationID, Repo: l.Repo,
		Routing: l.Routing, PayloadHash: l.PayloadHash, ReceivedAt: l.ReceivedAt, Seq: l.Seq, ReplayOf: l.ReplayOf,
	}
}
