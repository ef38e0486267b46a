package ingest

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

// shownEvents is how many of a task's newest events are shown with it.
const shownEvents = 20

var (
	// eventID and streamName are readable and have one spelling.
	eventID    = regexp.MustCompile(`^[!-~]{1,128}$`)
	streamName = regexp.MustCompile(`^[!-~]{1,200}$`)
	eventType  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$`)
)

// wireEvent is one event of a task.
type wireEvent struct {
	ID      string          `json:"id"`
	AgentID string          `json:"agentId,omitempty"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"`
	At      task.Time       `json:"at"`
}

// wireAppended is the answer to an event.
type wireAppended struct {
	OK        bool   `json:"ok"`
	StreamID  string `json:"streamId"`
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate,omitempty"`
}

// postEvent appends to a stream of EVENTS: 202, or 200 where the stream has an
// event of the id from the last 24 hours (OB-52).
func (s *Server) postEvent(w http.ResponseWriter, r *http.Request, c Caller) error {
	var in struct {
		StreamID string          `json:"streamId"`
		AgentID  string          `json:"agentId"`
		Type     string          `json:"type"`
		Data     json.RawMessage `json:"data"`
		ID       string          `json:"id"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	// Before anything else: this namespace is the operator tasks' (OT-25…27).
	if operator.Reserved(in.StreamID) || operator.Reserved(in.AgentID) {
		return kv.ErrReserved
	}
	stream := in.StreamID
	if stream == "" {
		stream = in.AgentID
	}
	switch {
	case !streamName.MatchString(stream):
		return badParameter("streamId", "1 to 200 characters without blanks; or give agentId")
	case in.AgentID != "" && !streamName.MatchString(in.AgentID):
		return badParameter("agentId", "1 to 200 characters without blanks")
	case !eventType.MatchString(in.Type):
		return badParameter("type", "a word such as progress or heartbeat")
	case !eventID.MatchString(in.ID):
		return badParameter("id", "1 to 128 characters without blanks, the same at every try")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	e := kv.AuditEntry{Kind: AuditEvent, Caller: c.Name, InstallationID: c.Scope.installation(), Detail: in.Type + " " + in.ID + " to " + stream}
	dup, err := s.appendEvent(ctx, c, kv.StreamEvent{ID: in.ID, Stream: stream, Agent: in.AgentID, Type: in.Type, Data: in.Data, By: c.Name}, &e)
	if err != nil {
		e.Detail += ", refused: " + err.Error()
	}
	if err != nil || !dup {
		s.o.Auditor.Mutation(ctx, e)
	}
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if dup {
		status = http.StatusOK
	}
	writeJSON(w, status, wireAppended{OK: true, StreamID: stream, ID: in.ID, Duplicate: dup})
	return nil
}

// appendEvent resolves whose stream it is, then appends. Who sees only some
// tasks reports only to their streams.
func (s *Server) appendEvent(ctx context.Context, c Caller, ev kv.StreamEvent, e *kv.AuditEntry) (duplicate bool, err error) {
	if c.Scope.Installation != nil || c.Scope.Repos != nil {
		rec, logged, err := s.taskFor(ctx, c, task.ID(strings.ToLower(ev.Stream)))
		if err != nil {
			return false, err
		}
		if e.TaskID, e.InstallationID, e.Repo = rec.ID, rec.InstallationID, rec.Repo; logged != nil {
			e.InstallationID, e.Repo = logged.InstallationID, logged.Repo
		}
	}
	return s.o.Events.Append(ctx, ev)
}

// eventsOf are a task's newest events, the oldest first.
func (s *Server) eventsOf(ctx context.Context, id task.ID) ([]wireEvent, error) {
	out := []wireEvent{}
	if s.o.Events == nil {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.o.Events.Last(ctx, string(id), shownEvents)
	for _, e := range list {
		out = append(out, wireEvent{ID: e.ID, AgentID: e.Agent, Type: e.Type, Data: e.Data, At: e.At})
	}
	return out, err
}
