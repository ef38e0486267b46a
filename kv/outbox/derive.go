package outbox

import (
	"encoding/json"
	"strconv"
	"time"
)

// Intent is what a task's terminal record asks to be sent.
type Intent struct {
	N           int
	Channel, To string
	Payload     []byte
}

// Origin is the task that the intents are of. At is when it ended, so that
// everyone derives the same bytes.
type Origin struct {
	TaskID         string
	InstallationID int64
	Repo           string
	At             time.Time
}

// DerivedID is the id of the record that a task's intent n becomes.
func DerivedID(taskID string, n int) ID { return ID(taskID + "-" + strconv.Itoa(n)) }

// Derive makes the pending records of a task's intents. It is pure: the same
// intents give the same records, which exist once because their ids collide.
// An intent that no channel could send becomes a record all the same, whose
// payload says what is wrong: it fails visibly instead of being derived again
// and again (O07).
func Derive(o Origin, intents []Intent) []Record {
	out := make([]Record, 0, len(intents))
	for _, in := range intents {
		payload, err := Freeze(in.Payload)
		if err != nil {
			payload, _ = json.Marshal(cut("belay: "+err.Error(), MaxText))
		}
		channel := cut(in.Channel, MaxName)
		if channel == "" {
			channel = "none"
		}
		out = append(out, Record{
			V: Version, ID: DerivedID(o.TaskID, in.N), Channel: channel, To: cut(in.To, MaxName),
			TaskID: o.TaskID, SessionID: o.TaskID, Index: in.N, Payload: payload, Status: Pending,
			InstallationID: o.InstallationID, Repo: cut(o.Repo, MaxName), CreatedAt: At(o.At), UpdatedAt: At(o.At),
		})
	}
	return out
}
