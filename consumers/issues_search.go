package consumers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/operator"
)

// searchSkew is how far GitHub's clock may be behind ours.
const searchSkew = 5 * time.Minute

// search is the looking for the issue of an attempt whose outcome is unknown.
type search struct {
	due  time.Time // by the machine's clock
	wait time.Duration
	over bool // nobody looks any more, unless a person asks
}

// seek has the request's issue looked for: soon, at once if a person asks.
func (i *Issues) seek(key requestKey) {
	i.mu.Lock()
	s := i.search[key]
	if s == nil {
		s = &search{due: time.Now().Add(i.o.SearchFirst), wait: i.o.SearchFirst}
		i.search[key] = s
	}
	if i.urgent[key] {
		s.due, s.over = time.Now(), false
	}
	delete(i.urgent, key)
	i.mu.Unlock()
	select {
	case i.kick <- struct{}{}:
	default:
	}
}

// searchLoop looks when a look is due: one listing serves all of them.
func (i *Issues) searchLoop() {
	for {
		next := time.NewTimer(i.untilSearch())
		select {
		case <-i.pull.Done():
			next.Stop()
			return
		case <-i.kick:
		case <-next.C:
		}
		next.Stop()
		if due := i.dueSearches(); len(due) > 0 {
			i.lookFor(due)
			if h := i.o.Hooks; h != nil && h.Searched != nil {
				h.Searched()
			}
		}
	}
}

func (i *Issues) untilSearch() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	wait := i.o.SearchLongest
	for _, s := range i.search {
		if !s.over {
			wait = min(wait, time.Until(s.due))
		}
	}
	return max(0, wait)
}

func (i *Issues) dueSearches() []requestKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []requestKey
	for key, s := range i.search {
		if !s.over && !time.Now().Before(s.due) {
			out = append(out, key)
		}
	}
	return out
}

// lookFor looks for the issues of requests among the App's own. What is not
// found changes nothing (OT-21).
func (i *Issues) lookFor(due []requestKey) {
	lost := map[string]map[requestKey]operator.Task{} // by the repository's name
	for _, key := range due {
		t, err := i.load(key)
		switch {
		case err != nil || t == nil:
			i.later(key, operator.Task{})
		case t.State != operator.StateUnknown: // note has ended the search
		case lost[t.Intent.Repo] == nil:
			lost[t.Intent.Repo] = map[requestKey]operator.Task{key: *t}
		default:
			lost[t.Intent.Repo][key] = *t
		}
	}
	for name, tasks := range lost {
		found, err := i.evidence(name, tasks)
		if err != nil {
			i.met.searches.WithLabelValues("failed").Inc()
			i.log.Warn("issues of unknown attempts could not be listed", "class", "issues_search", "repo", name, "err", err)
		}
		for key, t := range tasks {
			if issue, ok := found[key]; ok && i.reconcile(key, t, issue) {
				continue
			}
			if err == nil {
				i.met.searches.WithLabelValues("empty").Inc()
			}
			i.later(key, t)
		}
	}
}

// evidence lists the issues that authenticated markers prove to be of the
// attempts. Even where the listing did not end well, what it found is proof.
func (i *Issues) evidence(name string, tasks map[requestKey]operator.Task) (map[requestKey]githubapp.Issue, error) {
	repo, err := i.o.GitHub.InstallationOf(i.work, name)
	if err != nil {
		return nil, err
	}
	var since time.Time
	for _, t := range tasks {
		if from := t.AttemptedSince(); since.IsZero() || from.Before(since) {
			since = from
		}
	}
	own, err := i.o.GitHub.OwnIssues(i.work, repo, since.Add(-searchSkew))
	slices.SortFunc(own, func(a, b githubapp.Issue) int { return cmp.Compare(b.Number, a.Number) }) // the first one made wins
	found := map[requestKey]githubapp.Issue{}
	for _, issue := range own {
		m, ok := i.o.GitHub.OperatorMark(repo.ID, issue.Body)
		if !ok {
			continue
		}
		key := requestKey{m.Tenant, operator.RequestID(m.RequestID)}
		if t, ok := tasks[key]; ok && t.IsAttempt(m.AttemptID) {
			found[key] = issue
		}
	}
	return found, err
}

// reconcile records an issue that was found; the operator is told next.
func (i *Issues) reconcile(key requestKey, t operator.Task, issue githubapp.Issue) bool {
	ev := operator.Evidence{Owner: t.Owner, AttemptID: t.AttemptID, Issue: operator.Issue{Number: issue.Number, URL: issue.URL}}
	r, err := i.o.Events.Reconcile(i.work, t.Owner, t.ID, t.Revision, ev)
	if err != nil || r.Code != operator.Committed && r.Code != operator.Existing {
		i.log.Warn("issue was found but is not recorded yet", "class", "issues_record", "request_id", t.ID, "code", r.Code, "err", err)
		return false
	}
	i.note(key, *r.Task)
	i.met.searches.WithLabelValues("found").Inc()
	i.o.Audit(auditIssueFound, t.Intent.Repo, fmt.Sprintf("request %s, attempt %s: issue %d by its marker", t.ID, t.AttemptID, issue.Number))
	i.spawn(func() { _ = i.run(key) })
	return true
}

// later puts the next look off, twice as far each time, and ends the search
// when it has gone on for long enough.
func (i *Issues) later(key requestKey, t operator.Task) {
	i.mu.Lock()
	s := i.search[key]
	if s == nil {
		i.mu.Unlock()
		return
	}
	s.due, s.wait = time.Now().Add(s.wait), min(2*s.wait, i.o.SearchLongest)
	s.over = t.State == operator.StateUnknown && i.o.Now().Sub(t.UpdatedAt) >= searchFor
	over := s.over
	i.mu.Unlock()
	if !over {
		return
	}
	i.met.searches.WithLabelValues("given_up").Inc()
	what := fmt.Sprintf("request %s, attempt %s (%s): no issue of it was found in %s within %s; look there yourself: if there is one, "+
		"reconcile the request; if there is none, propose it anew under another id", t.ID, t.AttemptID, t.Reason, t.Intent.Repo, searchFor)
	i.log.Error("issue of an attempt was not found, nobody looks for it any more", "class", "issues_lost", "request_id", t.ID, "next", what)
	i.o.Audit(auditIssueLost, t.Intent.Repo, what)
}
