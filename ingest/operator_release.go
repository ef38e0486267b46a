package ingest

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

// commitForm is a commit's whole SHA, of either kind.
var commitForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// wireRelease is the consent to one head of a pull request.
type wireRelease struct {
	Repo   string    `json:"repo"`
	Number int       `json:"number"`
	Head   string    `json:"head"`
	At     task.Time `json:"at"`
}

// release records the owner's consent to one head of the pull request that
// belay opened for the request's issue. A new head voids it (OT-92).
func (s *Server) release(w http.ResponseWriter, r *http.Request, _ Caller) error {
	id, err := requestID(r)
	if err != nil {
		return err
	}
	var in struct {
		Repo   string `json:"repo"`
		Number int    `json:"number"`
		Head   string `json:"head"`
	}
	if err := readStrict(r, &in); err != nil {
		return err
	}
	switch {
	case in.Repo != "" && in.Repo != s.o.Operator.Repo:
		return badParameter("repo", "the repository of operator tasks, or left out")
	case in.Number < 1:
		return badParameter("number", "the number of a pull request")
	case !commitForm.MatchString(in.Head):
		return badParameter("head", "the whole SHA of the head that was looked at, in lower case")
	}
	return s.operate(w, r, AuditRelease, id, func(ctx context.Context, o operator.Owner, bound bool) (wireCode, error) {
		t, err := s.ownRequest(ctx, o, id, bound)
		switch {
		case err != nil:
			return wireCode{}, err
		case t == nil:
			return wireCode{Code: operator.NotFound}, nil
		case t.State != operator.StateSubmitted && t.State != operator.StateDelivered:
			return wireCode{Code: operator.Conflict, Task: requestOf(t)}, nil
		}
		return s.approve(ctx, o, t, in.Number, in.Head)
	})
}

// approve looks whether the pull request is of the request's issue, and
// records the consent.
func (s *Server) approve(ctx context.Context, o operator.Owner, t *operator.Task, number int, head string) (wireCode, error) {
	pull, err := s.o.Operator.Pulls.Pull(ctx, t.Intent.Repo, number)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return wireCode{}, errUnknownPull
	case err != nil:
		return wireCode{}, err
	case pull.Issue != t.Issue.Number:
		return wireCode{}, errUnknownPull
	}
	out := wireCode{Code: operator.Committed, Task: requestOf(t)}
	rel, existing, err := s.o.Operator.Releases.Approve(ctx, pull.RepoID, number, head, o, s.o.Now())
	switch {
	case errors.Is(err, kv.ErrConflict):
		out.Code = operator.Conflict
		return out, nil
	case errors.Is(err, kv.ErrUnknown):
		return wireCode{Code: operator.Uncertain}, nil
	case err != nil:
		return wireCode{}, err
	case existing:
		out.Code = operator.Existing
	}
	out.Release = &wireRelease{Repo: t.Intent.Repo, Number: number, Head: rel.Head, At: rel.At}
	return out, nil
}
