package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

const (
	// maxIssueTitle is GitHub's own bound, in characters.
	maxIssueTitle = 256
	// maxIssueBody leaves room for belay's marker within GitHub's 65,536.
	maxIssueBody = 60_000
)

// Operator is what the signed routes are made of. Without a key and a
// repository all of them are blocked (OT-93).
type Operator struct {
	// Keys returns those in force, which sign requests.
	Keys func() []OperatorKey
	// Repo is the one repository that issues are created in: owner/name.
	Repo     string
	Store    OperatorStore
	Tenancy  Tenancy
	Nonces   Nonces
	Releases Releases
	Pulls    Pulls
	Waker    Waker
}

func (o *Operator) enabled() bool { return len(o.Keys()) > 0 && o.Repo != "" }

// codeStatus maps the codes to HTTP (REQUIREMENTS §API).
var codeStatus = map[operator.Code]int{
	operator.Committed: http.StatusOK,
	operator.Existing:  http.StatusOK,
	operator.Conflict:  http.StatusConflict,
	operator.Uncertain: http.StatusGatewayTimeout,
	operator.NotFound:  http.StatusNotFound,
	operator.Forbidden: http.StatusForbidden,
	operator.Expired:   http.StatusGone,
}

// operatorRoutes are the routes under /api/operator. A signature is asked for
// first, also for paths that do not exist.
func (s *Server) operatorRoutes(root chi.Routes) http.Handler {
	r := chi.NewRouter()
	r.Use(s.signed)
	s.unrouted(r, root)
	r.Post("/tasks", s.handle(s.propose))
	r.Get("/tasks/{id}", s.handle(s.showRequest))
	r.Post("/tasks/{id}/confirm", s.handle(s.confirm))
	r.Post("/tasks/{id}/reconcile", s.handle(s.reconcile))
	r.Post("/tasks/{id}/release", s.handle(s.release))
	return r
}

// wireCode is the answer of the signed routes.
type wireCode struct {
	Code    operator.Code `json:"code"`
	Task    *wireRequest  `json:"task,omitempty"`
	Release *wireRelease  `json:"release,omitempty"`
}

// wireRequest is an operator task as its owner sees it.
type wireRequest struct {
	ID          operator.RequestID `json:"id"`
	State       operator.State     `json:"state"`
	Revision    int                `json:"revision"`
	Owner       operator.Owner     `json:"owner"`
	Repo        string             `json:"repo"`
	Title       string             `json:"title"`
	Body        string             `json:"body"`
	ProposedAt  task.Time          `json:"proposedAt"`
	ExpiresAt   task.Time          `json:"expiresAt"`
	ApprovedAt  task.Time          `json:"approvedAt,omitzero"`
	AttemptID   string             `json:"attemptId,omitempty"`
	AttemptedAt task.Time          `json:"attemptedAt,omitzero"`
	LeaseUntil  task.Time          `json:"leaseUntil,omitzero"`
	Reason      string             `json:"reason,omitempty"`
	Issue       *operator.Issue    `json:"issue,omitempty"`
	Evidence    string             `json:"evidence,omitempty"`
	OutboxID    string             `json:"outboxId,omitempty"`
	UpdatedAt   task.Time          `json:"updatedAt"`
}

func requestOf(t *operator.Task) *wireRequest {
	if t == nil {
		return nil
	}
	at := func(v time.Time) task.Time {
		if v.IsZero() {
			return task.Time{}
		}
		return task.At(v)
	}
	out := &wireRequest{
		ID: t.ID, State: t.State, Revision: t.Revision, Owner: t.Owner, Repo: t.Intent.Repo, Title: t.Intent.Title, Body: t.Intent.Body,
		ProposedAt: at(t.ProposedAt), ExpiresAt: at(t.ExpiresAt), ApprovedAt: at(t.ApprovedAt), AttemptID: t.AttemptID,
		AttemptedAt: at(t.AttemptedAt), LeaseUntil: at(t.LeaseUntil), Reason: t.Reason, Evidence: t.Evidence, OutboxID: t.OutboxID,
		UpdatedAt: at(t.UpdatedAt),
	}
	if t.Issue.Number != 0 {
		out.Issue = &t.Issue
	}
	return out
}

// propose opens a request: 201, or 200 if the same owner proposed the same.
func (s *Server) propose(w http.ResponseWriter, r *http.Request, _ Caller) error {
	var in struct {
		RequestID string `json:"requestId"`
		Title     string `json:"title"`
		Body      string `json:"body"`
	}
	if err := readStrict(r, &in); err != nil {
		return err
	}
	id, err := operator.ParseRequestID(in.RequestID)
	switch {
	case err != nil:
		return badParameter("requestId", "a UUID in lower case")
	case strings.TrimSpace(in.Title) == "" || utf8.RuneCountInString(in.Title) > maxIssueTitle || strings.ContainsFunc(in.Title, unicode.IsControl):
		return badParameter("title", "one line of 1 to 256 characters")
	case len(in.Body) > maxIssueBody:
		return badParameter("body", "at most 60000 bytes")
	}
	return s.operate(w, r, AuditPropose, id, func(ctx context.Context, o operator.Owner, _ bool) (wireCode, error) {
		if o.Tenant == "" {
			return wireCode{Code: operator.Forbidden}, nil
		}
		res, err := s.o.Operator.Store.Propose(ctx, o, id, operator.Intent{Repo: s.o.Operator.Repo, Title: in.Title, Body: in.Body})
		return resultOf(res), err
	})
}

// confirm approves a proposal at the revision that the operator saw. Repeated
// while nothing came of it, it has the consumer look again (DESIGN §9).
func (s *Server) confirm(w http.ResponseWriter, r *http.Request, _ Caller) error {
	id, rev, err := readRevision(r)
	if err == nil && rev < 1 {
		err = badParameter("revision", "the revision that was seen, from 1 on")
	}
	if err != nil {
		return err
	}
	return s.operate(w, r, AuditConfirm, id, func(ctx context.Context, o operator.Owner, bound bool) (wireCode, error) {
		if !bound {
			return wireCode{Code: operator.NotFound}, nil
		}
		res, err := s.o.Operator.Store.Confirm(ctx, o, id, rev)
		if err == nil && res.Code == operator.Existing && res.Task != nil && res.Task.State == operator.StateApproved {
			err = s.o.Operator.Waker.Wake(ctx, o.Tenant, id)
		}
		return resultOf(res), err
	})
}

// reconcile has the consumer look for the issue of an attempt whose outcome
// is not known. It appends nothing itself, so the answer is never Committed.
func (s *Server) reconcile(w http.ResponseWriter, r *http.Request, _ Caller) error {
	id, rev, err := readRevision(r)
	if err != nil {
		return err
	}
	return s.operate(w, r, AuditReconcile, id, func(ctx context.Context, o operator.Owner, bound bool) (wireCode, error) {
		t, err := s.ownRequest(ctx, o, id, bound)
		switch {
		case err != nil:
			return wireCode{}, err
		case t == nil:
			return wireCode{Code: operator.NotFound}, nil
		case rev != 0 && rev != t.Revision, t.State == operator.StateProposed, t.State == operator.StateApproved:
			return wireCode{Code: operator.Conflict, Task: requestOf(t)}, nil
		case t.State == operator.StateAttempting, t.State == operator.StateUnknown:
			err = s.o.Operator.Waker.Wake(ctx, o.Tenant, id)
		}
		return wireCode{Code: operator.Existing, Task: requestOf(t)}, err
	})
}

// showRequest answers a request to its owner; to all others it is unknown.
func (s *Server) showRequest(w http.ResponseWriter, r *http.Request, _ Caller) error {
	id, err := requestID(r)
	if err != nil {
		return err
	}
	g := r.Context().Value(signerKey{}).(signer)
	s.o.Auditor.Read(g.caller(), 0, "operator task")
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	o, bound, err := s.ownerOf(ctx, g, id)
	if err != nil {
		return err
	}
	t, err := s.ownRequest(ctx, o, id, bound)
	if err != nil {
		return err
	}
	if t == nil {
		writeJSON(w, codeStatus[operator.NotFound], wireCode{Code: operator.NotFound})
		return nil
	}
	writeJSON(w, http.StatusOK, wireCode{Code: operator.Existing, Task: requestOf(t)})
	return nil
}

// operate runs one operation for the request's signer, audits and answers it.
// It goes on when the client hangs up.
func (s *Server) operate(w http.ResponseWriter, r *http.Request, action string, id operator.RequestID,
	do func(ctx context.Context, o operator.Owner, bound bool) (wireCode, error),
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	g := r.Context().Value(signerKey{}).(signer)
	var out wireCode
	o, bound, err := s.ownerOf(ctx, g, id)
	if err == nil {
		out, err = do(ctx, o, bound)
	}
	detail := "request " + string(id) + " by " + g.operator + " in " + g.conversation + ": "
	if err != nil {
		detail += "refused: " + err.Error()
	} else {
		detail += string(out.Code)
	}
	s.o.Auditor.Mutation(ctx, kv.AuditEntry{Kind: action, Caller: g.caller(), Repo: s.o.Operator.Repo, Detail: detail})
	if err != nil {
		return err
	}
	status := codeStatus[out.Code]
	if action == AuditPropose && out.Code == operator.Committed {
		status = http.StatusCreated
	}
	writeJSON(w, status, out)
	return nil
}

// ownerOf makes the owner of a request from its signature and never from its
// body: the tenant is the one that the id was proposed under, which binds
// every later call (OT-89), else the repository's. It is empty where that is
// not to be known, and bound is false where nobody proposed the id.
func (s *Server) ownerOf(ctx context.Context, g signer, id operator.RequestID) (o operator.Owner, bound bool, err error) {
	o = operator.Owner{Operator: g.operator, Conversation: g.conversation}
	o.Tenant, bound, err = s.o.Operator.Store.Tenant(ctx, id)
	if err != nil || bound {
		return o, bound, err
	}
	if o.Tenant, err = s.o.Operator.Tenancy.RepoTenant(ctx, s.o.Operator.Repo); err != nil {
		o.Tenant = "" // fails closed
	}
	return o, false, nil
}

// ownRequest reads a request of the owner's, nil if there is none.
func (s *Server) ownRequest(ctx context.Context, o operator.Owner, id operator.RequestID, bound bool) (*operator.Task, error) {
	if !bound {
		return nil, nil
	}
	return s.o.Operator.Store.Read(ctx, o, id)
}

func resultOf(res kv.OperatorResult) wireCode {
	return wireCode{Code: res.Code, Task: requestOf(res.Task)}
}

func requestID(r *http.Request) (operator.RequestID, error) {
	id, err := operator.ParseRequestID(chi.URLParam(r, "id"))
	if err != nil {
		return "", badParameter("id", "a UUID in lower case")
	}
	return id, nil
}

// readRevision reads the route's request and {"revision"}, 0 where left out.
func readRevision(r *http.Request) (operator.RequestID, int, error) {
	id, err := requestID(r)
	if err != nil {
		return "", 0, err
	}
	var in struct {
		Revision int `json:"revision"`
	}
	err = readStrict(r, &in)
	return id, in.Revision, err
}

// readStrict is readJSON that refuses fields it does not know: who names an
// owner in the body is told that nobody reads it.
func readStrict(r *http.Request, v any) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyError(err)
	}
	if len(data) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil || dec.More() {
		return errParseBody
	}
	return nil
}
