package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// What Payloads answers; each has its row in answers.
var (
	// ErrNoApp: no App stands behind the source.
	ErrNoApp = errors.New("no github app")
	// ErrForgotten: GitHub does not keep the delivery any more.
	ErrForgotten = errors.New("github forgot the delivery")
	// ErrGitHub: GitHub cannot be asked now.
	ErrGitHub = errors.New("github does not answer")

	errSettled = errors.New("delivery needs no replay")
)

// replayTimeout bounds a replay, which may read through GitHub's list. It is
// shorter than writeTimeout.
const replayTimeout = 25 * time.Second

// Payloads reads from GitHub what it sent in a delivery of a source's App that
// was received at a time. Errors: ErrNoApp, ErrForgotten, ErrGitHub.
type Payloads interface {
	Payload(ctx context.Context, source string, id task.DeliveryID, at time.Time) (http.Header, []byte, error)
}

// wireReplay is the answer of a replay.
type wireReplay struct {
	OK        bool         `json:"ok"`
	Task      task.ID      `json:"task"`
	Delivery  wireDelivery `json:"delivery"`
	Duplicate bool         `json:"duplicate,omitempty"`
}

// replayDelivery routes an ignored delivery once more, by the configuration
// in force, as a delivery of its own. What made a task is not replayed: the
// task can be retried. A second replay is a duplicate of the first.
func (s *Server) replayDelivery(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !s.replaying.TryLock() { // one payload in memory
		return errBusy
	}
	defer s.replaying.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), replayTimeout)
	defer cancel()
	l, err := s.findDelivery(ctx, r, c)
	if err != nil {
		return s.missed(r, c, err)
	}
	if id, ok := l.Routing.Task(); ok && l.ReplayOf != "" {
		writeJSON(w, http.StatusOK, wireReplay{OK: true, Task: id, Delivery: deliveryOf(&l), Duplicate: true})
		return nil
	}
	acc, err := s.replay(ctx, &l)
	entry := kv.AuditEntry{Kind: AuditReplay, Caller: c.Name, InstallationID: l.InstallationID, Repo: l.Repo, DeliveryID: l.ID, Detail: "done"}
	id, _ := acc.Delivery.Routing.Task()
	if entry.TaskID = id; err != nil {
		entry.Detail = "refused: " + err.Error()
	}
	s.o.Auditor.Mutation(ctx, entry)
	if err != nil {
		return err
	}
	if !acc.Duplicate {
		s.metrics.delivery(acc.Delivery.Event, "task")
	}
	out := kv.Logged{Delivery: acc.Delivery, Seq: acc.Seq}
	writeJSON(w, http.StatusOK, wireReplay{OK: true, Task: id, Delivery: deliveryOf(&out), Duplicate: acc.Duplicate})
	return nil
}

// replay stores the replay of a delivery, if it makes a task now.
func (s *Server) replay(ctx context.Context, l *kv.Logged) (kv.Accepted, error) {
	if id, ok := l.Routing.Task(); ok {
		return kv.Accepted{}, &textError{errSettled, fmt.Sprintf("delivery made task %s: retry that task instead", id)}
	}
	h, body, err := s.o.Payloads.Payload(ctx, l.Source, l.ID, l.ReceivedAt.Time)
	if err != nil {
		return kv.Accepted{}, err
	}
	if int64(len(body)) > s.o.MaxBody {
		return kv.Accepted{}, errTooLarge
	}
	ev, err := github.Decode(l.Event, body)
	if err != nil {
		return kv.Accepted{}, err
	}
	cfg, ok := s.routingOfSource(l.Source)
	if !ok {
		return kv.Accepted{}, &textError{errSettled, "source " + l.Source + " is not configured any more"}
	}
	d := github.Route(cfg, headers(h, &l.Delivery), ev, s.o.Now())
	if err := s.owned(ctx, &d); err != nil {
		return kv.Accepted{}, err
	}
	if d.Event != l.Event || d.InstallationID != l.InstallationID || d.RepoID != l.RepoID || d.Source != l.Source {
		return kv.Accepted{}, &textError{errSettled, "the App's delivery of this id is not the one in the log: a repository's own hook sent that"}
	}
	if why, ignored := d.Routing.Reason(); ignored {
		return kv.Accepted{}, &textError{errSettled, fmt.Sprintf("still ignored as %s: change the configuration first", why)}
	}
	// The hash is that of the body which came: GitHub's copy may be spaced
	// differently, and the same body under another id is still a replay.
	d.ID, d.ReplayOf, d.PayloadHash = task.ReplayID(l.ID), l.ID, l.PayloadHash
	return s.keep(ctx, d, func() error {
		return &textError{errSettled, "the installation had its number of tasks of the last 24 hours: replay it later"}
	})
}

// routingOfSource is the routing in force for a source, false if there is no
// such source.
func (s *Server) routingOfSource(name string) (*github.Config, bool) {
	if name == task.DefaultSource {
		return s.o.Config(), true
	}
	src, ok := s.o.Sources(name)
	return src.Config, ok
}

// findDelivery reads the delivery that the route names, if the caller may see
// it. A replay is named by its own id, or found by that of its original.
func (s *Server) findDelivery(ctx context.Context, r *http.Request, c Caller) (kv.Logged, error) {
	name := chi.URLParam(r, "id")
	original, isReplay := task.OriginalOf(task.DeliveryID(name))
	id, err := github.ParseDeliveryID(string(original))
	if err != nil {
		return kv.Logged{}, errDelivery
	}
	if isReplay {
		id = task.ReplayID(id)
	}
	l, err := s.o.Deliveries.Find(ctx, id, kv.DeliveryQuery{Installation: c.Scope.Installation, Repos: c.Scope.Repos})
	if errors.Is(err, kv.ErrNotFound) || err == nil && !c.Scope.sees(l.InstallationID, l.Repo) {
		return kv.Logged{}, errDelivery
	}
	return l, err
}
