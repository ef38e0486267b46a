package relay

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// EventTypePrefix comes before a task's terminal state in an event's type:
// run.belay.task.completed.
const EventTypePrefix = "run.belay.task."

// maxEventText bounds each free text of an event, in bytes.
const maxEventText = 8 << 10

// Event is what a callback carries: a CloudEvents 1.0 event in JSON format.
type Event struct {
	SpecVersion     string    `json:"specversion"`
	ID              outbox.ID `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            task.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            EventData `json:"data"`
}

// EventData is how a task ended.
type EventData struct {
	TaskID         task.ID           `json:"task_id"`
	State          task.State        `json:"state"`
	Kind           task.KindName     `json:"kind"`
	ResultStatus   task.ResultStatus `json:"result_status,omitempty"`
	Reason         string            `json:"reason,omitempty"`
	Title          string            `json:"title"`
	Summary        string            `json:"summary,omitempty"`
	InstallationID int64             `json:"installation_id"`
	Repo           string            `json:"repo"`
	Number         int               `json:"number,omitempty"`
	HeadSHA        string            `json:"head_sha,omitempty"`
	Branch         string            `json:"branch,omitempty"`
	PRNumber       int               `json:"pr_number,omitempty"`
	PRURL          string            `json:"pr_url,omitempty"`
	CheckRunURL    string            `json:"check_run_url,omitempty"`
	FamiliarID     string            `json:"familiar_id"`
	Commander      string            `json:"commander,omitempty"`
	SupersededBy   task.ID           `json:"superseded_by,omitempty"`
	Attempts       int               `json:"attempts"`
	CreatedAt      task.Time         `json:"created_at"`
	UpdatedAt      task.Time         `json:"updated_at"`
}

// OperatorEventType is the type of the event that tells an operator of the
// issue that was created for a request.
const OperatorEventType = "run.belay.operator.submitted"

// operatorEvent is a CloudEvents 1.0 event in JSON format, like Event.
type operatorEvent struct {
	SpecVersion     string            `json:"specversion"`
	ID              outbox.ID         `json:"id"`
	Source          string            `json:"source"`
	Type            string            `json:"type"`
	Subject         string            `json:"subject"`
	Time            task.Time         `json:"time"`
	DataContentType string            `json:"datacontenttype"`
	Data            OperatorEventData `json:"data"`
}

// OperatorEventData is what became of an operator's request.
type OperatorEventData struct {
	RequestID    operator.RequestID `json:"request_id"`
	State        operator.State     `json:"state"`
	Tenant       string             `json:"tenant"`
	Operator     string             `json:"operator"`
	Conversation string             `json:"conversation"`
	Repo         string             `json:"repo"`
	Title        string             `json:"title"`
	IssueNumber  int                `json:"issue_number"`
	IssueURL     string             `json:"issue_url"`
	// Evidence is "answer" for GitHub's own, "marker" for an issue that was found.
	Evidence   string    `json:"evidence"`
	AttemptID  string    `json:"attempt_id"`
	ProposedAt task.Time `json:"proposed_at"`
	ApprovedAt task.Time `json:"approved_at"`
}

// OperatorEvent is the payload that tells an operator of a request's issue.
func OperatorEvent(t operator.Task, id outbox.ID) ([]byte, error) {
	if t.State != operator.StateSubmitted {
		return nil, fmt.Errorf("make event of %s request %s: there is no issue to tell of", t.State, t.ID)
	}
	payload, err := json.Marshal(operatorEvent{
		SpecVersion: "1.0", ID: id, Source: "/operator/" + t.Owner.Tenant, Type: OperatorEventType,
		Subject: string(t.ID), Time: task.At(t.UpdatedAt), DataContentType: "application/json",
		Data: OperatorEventData{
			RequestID: t.ID, State: t.State, Tenant: t.Owner.Tenant, Operator: t.Owner.Operator, Conversation: t.Owner.Conversation,
			Repo: t.Intent.Repo, Title: task.Cut(t.Intent.Title, maxEventText), IssueNumber: t.Issue.Number, IssueURL: t.Issue.URL,
			Evidence: t.Evidence, AttemptID: t.AttemptID, ProposedAt: task.At(t.ProposedAt), ApprovedAt: task.At(t.ApprovedAt),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode event of request %s: %w", t.ID, err)
	}
	return payload, nil
}

// CallbackChannel is the name of the channel of a configured callback.
func CallbackChannel(name string) string { return "callback:" + name }

// CallbackIntent is the intent n of a task that has just ended: its event, to
// a callback by name. to is shown to people; it must hold no secret.
func CallbackIntent(t task.Record, n int, name, to string) (task.Intent, error) {
	if !t.State.Terminal() {
		return task.Intent{}, fmt.Errorf("make event of %s task: %w", t.State, task.ErrState)
	}
	cut := func(s string) string { return task.Cut(s, maxEventText) }
	e := Event{
		SpecVersion: "1.0", ID: outbox.DerivedID(string(t.ID), n), Source: source(t), Type: EventTypePrefix + string(t.State),
		Subject: string(t.ID), Time: t.UpdatedAt, DataContentType: "application/json",
		Data: EventData{
			TaskID: t.ID, State: t.State, Kind: t.Kind.Name, ResultStatus: t.ResultStatus, Reason: cut(t.Reason), Title: cut(t.Title),
			Summary: cut(t.Summary), InstallationID: t.InstallationID, Repo: t.Repo, Number: t.Number, HeadSHA: t.HeadSHA,
			Branch: cut(t.Branch), PRNumber: t.PRNumber, PRURL: cut(t.PRURL), CheckRunURL: cut(t.CheckRunURL), FamiliarID: t.FamiliarID,
			Commander: t.Commander, SupersededBy: t.SupersededBy, Attempts: t.Attempts, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
		},
	}
	payload, err := json.Marshal(&e)
	if err != nil {
		return task.Intent{}, fmt.Errorf("encode event of task %s: %w", t.ID, err)
	}
	return task.Intent{N: n, Channel: CallbackChannel(name), To: to, Payload: payload}, nil
}

// source is the context of the event: the repository's page, or the task's
// place in belay where there is none.
func source(t task.Record) string {
	if page, ok := strings.CutSuffix(t.CloneURL, ".git"); ok && strings.HasPrefix(page, "https://") && !strings.ContainsAny(page, "@?# ") {
		return page
	}
	return fmt.Sprintf("/installations/%d", t.InstallationID)
}
