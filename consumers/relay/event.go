package relay

import (
	"encoding/json"
	"fmt"
	"strings"

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
