package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

// Kinds of audit entries about operator requests.
const (
	auditIssueCreated = "operator_issue_created"
	auditIssueUnknown = "operator_issue_unknown"
	auditIssueFound   = "operator_issue_found"
	auditIssueLost    = "operator_issue_unresolved"
	auditUncertain    = "operator_attempt_uncertain"
)

// reasonUnknown is the reason of an attempt that GitHub did not refuse.
const reasonUnknown = "unknown"

// recordWait is the longest pause between two tries to record an outcome.
const recordWait = 5 * time.Second

// attempt begins the request's one attempt and, if and only if that was
// committed by this very call, sends the one request (OT-15). What could keep
// that from working is asked before, so that the license is not spent on it.
func (i *Issues) attempt(t operator.Task) (moved bool, err error) {
	key := requestKey{t.Owner.Tenant, t.ID}
	i.mu.Lock()
	held := i.held[key]
	i.mu.Unlock()
	if held || i.pull.Err() != nil {
		return false, nil
	}
	repo, err := i.ready(t)
	if err != nil {
		return false, err
	}
	i.o.Hooks.call(func(h *IssueHooks) func(operator.RequestID) { return h.BeforeBegin }, t.ID)
	r, err := i.o.Events.TryBeginAttempt(i.work, t.Owner, t.ID, t.Revision, uuid.NewString(), string(i.o.Boot))
	switch {
	case err != nil:
		return false, err
	case r.Code == operator.Uncertain:
		i.hold(key, t)
		return false, nil
	case r.Code == operator.Forbidden:
		return false, fmt.Errorf("begin the attempt of request %s: repository %s is not of tenant %s now", t.ID, t.Intent.Repo, t.Owner.Tenant)
	case !r.AuthorizesIssueCreate():
		return true, nil // somebody else's
	}
	i.note(key, *r.Task)
	i.o.Hooks.call(func(h *IssueHooks) func(operator.RequestID) { return h.Begun }, t.ID)
	return true, i.create(repo, *r.Task)
}

// ready asks for all that the request to GitHub will need.
func (i *Issues) ready(t operator.Task) (githubapp.Repo, error) {
	if t.Intent.Repo != i.o.Repo {
		return githubapp.Repo{}, fmt.Errorf("begin the attempt of request %s: it is for %s, the configured repository is %s", t.ID, t.Intent.Repo, i.o.Repo)
	}
	repo, err := i.o.GitHub.InstallationOf(i.work, t.Intent.Repo)
	if err == nil {
		_, err = i.o.GitHub.Token(i.work, repo, githubapp.Orchestration) // which fails while the installation is parked, too
	}
	if err != nil {
		return repo, fmt.Errorf("begin the attempt of request %s: %w", t.ID, err)
	}
	return repo, nil
}

// hold remembers that nobody knows whether this process has the license. It
// rereads and does nothing more, whatever that says (OT-22, 23): only a person
// wakes the request, or the end of the lease.
func (i *Issues) hold(key requestKey, t operator.Task) {
	i.mu.Lock()
	i.held[key] = true
	i.mu.Unlock()
	fresh, err := i.load(key)
	state := "cannot be read"
	if err == nil && fresh != nil {
		state = "is " + string(fresh.State)
	}
	i.log.Warn("begin of an attempt was not answered, nothing is sent", "class", "issues_uncertain", "request_id", t.ID, "request", state)
	i.o.Audit(auditUncertain, t.Intent.Repo, fmt.Sprintf("request %s %s; confirm it again if it is still approved", t.ID, state))
}

// create sends the one request and records what came of it.
func (i *Issues) create(repo githubapp.Repo, t operator.Task) error {
	ctx, cancel := context.WithTimeout(i.work, createTimeout)
	defer cancel()
	marker := i.o.GitHub.OperatorMarker(repo.ID, githubapp.OperatorMark{
		Tenant: t.Owner.Tenant, RequestID: string(t.ID), AttemptID: t.AttemptID,
	})
	issue, err := i.o.GitHub.CreateIssue(ctx, repo, t.Intent.Title, marker+"\n\n"+t.Intent.Body, i.o.Labels...)
	i.o.Hooks.call(func(h *IssueHooks) func(operator.RequestID) { return h.Posted }, t.ID)
	if err != nil {
		reason := refusal(err)
		i.met.posts.WithLabelValues(outcomeOfPost(reason)).Inc()
		i.log.Warn("issue may not have been created, it is looked for", "class", "issues_unknown", "request_id", t.ID, "reason", reason, "err", err)
		i.o.Audit(auditIssueUnknown, t.Intent.Repo, fmt.Sprintf("request %s, attempt %s: %s: %v", t.ID, t.AttemptID, reason, err))
		return i.record(t, ended, func(ctx context.Context, t operator.Task) (kv.OperatorResult, error) {
			return i.o.Events.MarkUnknown(ctx, t.Owner, t.ID, t.Revision, t.AttemptID, string(i.o.Boot), reason)
		})
	}
	i.met.posts.WithLabelValues("created").Inc()
	i.o.Audit(auditIssueCreated, t.Intent.Repo, fmt.Sprintf("request %s, attempt %s: issue %d", t.ID, t.AttemptID, issue.Number))
	ev := operator.Evidence{Owner: t.Owner, AttemptID: t.AttemptID, Issue: operator.Issue{Number: issue.Number, URL: issue.URL}}
	return i.record(t, submitted, func(ctx context.Context, t operator.Task) (kv.OperatorResult, error) {
		if t.State == operator.StateUnknown { // somebody found the lease over
			return i.o.Events.Reconcile(ctx, t.Owner, t.ID, t.Revision, ev)
		}
		return i.o.Events.MarkVerified(ctx, t.Owner, t.ID, t.Revision, ev)
	})
}

// refusal is the reason of an attempt that did not end with an issue.
func refusal(err error) string {
	var e *githubapp.Error
	var limit *githubapp.RateLimitError
	status := 0
	switch {
	case errors.As(err, &limit):
		status = limit.Status
	case errors.As(err, &e) && !errors.Is(err, githubapp.ErrUnknown):
		status = e.Status
	}
	if status == 0 {
		return reasonUnknown
	}
	return fmt.Sprintf("refused:%d", status)
}

// record writes an outcome. It is decided by rereading and repeated, the
// record and never the request to GitHub, until it stands or the process ends.
func (i *Issues) record(t operator.Task, stands func(operator.Task) bool, write func(context.Context, operator.Task) (kv.OperatorResult, error)) error {
	ctx := context.WithoutCancel(i.work) // one try is made even at the end
	key := requestKey{t.Owner.Tenant, t.ID}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, recordWait) {
		r, err := write(ctx, t)
		if err == nil && (r.Code == operator.Committed || r.Code == operator.Existing) {
			t = *r.Task
			break
		}
		fresh, rerr := i.o.Events.Load(ctx, key.tenant, key.id)
		if rerr == nil && fresh != nil {
			if t = *fresh; stands(t) {
				break
			}
		}
		i.log.Warn("outcome is not recorded yet", "class", "issues_record", "request_id", t.ID, "code", r.Code, "err", errors.Join(err, rerr))
		select {
		case <-i.work.Done():
			return fmt.Errorf("record the outcome of request %s: %w", t.ID, i.work.Err())
		case <-time.After(wait):
		}
	}
	i.note(key, t)
	i.o.Hooks.call(func(h *IssueHooks) func(operator.RequestID) { return h.Recorded }, t.ID)
	return nil
}

func submitted(t operator.Task) bool {
	return t.State == operator.StateSubmitted || t.State == operator.StateDelivered
}

func ended(t operator.Task) bool { return t.State != operator.StateAttempting }

// expire ends an attempt whose holder is gone: nobody can say what came of
// it. A restart finds that of its former life, too, and creates nothing
// (OT-19, 20).
func (i *Issues) expire(t operator.Task) (moved bool, err error) {
	i.mu.Lock()
	held := i.held[requestKey{t.Owner.Tenant, t.ID}]
	i.mu.Unlock()
	mine := t.Holder == string(i.o.Boot) && !held
	if !mine && i.o.Now().Before(t.LeaseUntil) {
		return false, nil
	}
	r, err := i.o.Events.MarkUnknown(i.work, t.Owner, t.ID, t.Revision, t.AttemptID, string(i.o.Boot), reasonUnknown)
	if err != nil {
		return false, err
	}
	if r.Code == operator.Committed {
		i.log.Warn("attempt was not ended by its holder, its issue is looked for", "class", "issues_expired", "request_id", t.ID, "holder", t.Holder)
		i.o.Audit(auditIssueUnknown, t.Intent.Repo, fmt.Sprintf("request %s, attempt %s: its process did not end it", t.ID, t.AttemptID))
	}
	return r.Code == operator.Committed || r.Code == operator.Existing, nil
}
