package kv

import (
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// encodedSize is what most records and deliveries fit into, in bytes.
const encodedSize = 1 << 10

// encodeRecord writes a record at this build's version and within MaxRecord:
// free text is cut, ever shorter until it fits.
func encodeRecord(r task.Record) ([]byte, error) {
	r.V = task.Version
	for _, limit := range []int{0, 16 << 10, 2 << 10, 256} {
		if limit > 0 {
			r = cutText(r, limit)
		}
		b, err := r.Append(make([]byte, 0, encodedSize))
		if err != nil {
			return nil, fmt.Errorf("encode task %s: %w", r.ID, err)
		}
		if len(b) <= task.MaxRecord {
			return b, nil
		}
	}
	return nil, fmt.Errorf("encode task %s: %w", r.ID, ErrTooLarge)
}

func cutText(r task.Record, limit int) task.Record {
	log := make([]task.Attempt, len(r.AttemptLog))
	copy(log, r.AttemptLog)
	for i := range log {
		log[i].Detail, log[i].Tail = task.Cut(log[i].Detail, limit), task.Cut(log[i].Tail, limit)
	}
	r.AttemptLog = log
	if len(r.Unshown) > 4*limit {
		r.Unshown = nil // it cannot be cut; the summary is still there
	}
	r.Summary, r.Reason, r.Title = task.Cut(r.Summary, limit), task.Cut(r.Reason, limit), task.Cut(r.Title, limit)
	for _, s := range []*string{
		&r.Kind.IssueBody, &r.Kind.CommentBody, &r.Kind.DiffHunk, &r.Kind.Body, &r.Kind.IssueTitle, &r.Kind.PRTitle, &r.Kind.Custom.Title,
		&r.Kind.Reason, &r.Branch, &r.PRURL, &r.CheckRunURL, &r.Commander, &r.CloneURL, &r.DefaultBranch, &r.HeadSHA,
		&r.Kind.Custom.Ref, &r.Kind.Custom.URL,
	} {
		*s = task.Cut(*s, limit)
	}
	return r
}

// cloneURL is where GitHub itself serves a repository.
func cloneURL(repo string) string { return "https://github.com/" + repo + ".git" }

// encodeDelivery writes a message of the log. It leaves out what Decode knows
// from the other fields: the task's id and GitHub's own clone URL.
func encodeDelivery(d task.Delivery) ([]byte, error) {
	if d.Task != nil {
		spec := *d.Task
		spec.ID = ""
		if spec.CloneURL == cloneURL(d.Repo) {
			spec.CloneURL = ""
		}
		d.Task = &spec
	}
	b, err := d.Append(make([]byte, 0, encodedSize))
	if err != nil {
		return nil, fmt.Errorf("encode delivery: %w", err)
	}
	return b, nil
}

// Decode reads a message of the log; ErrNewer or ErrCorrupt if it cannot.
func Decode(data []byte) (task.Delivery, error) {
	var d task.Delivery
	if err := task.Decode(data, &d, &d.V); err != nil {
		return task.Delivery{}, fmt.Errorf("decode delivery: %w", err)
	}
	if d.ID == "" || d.Routing == "" {
		return task.Delivery{}, fmt.Errorf("decode delivery: %w: no delivery_id or routing", ErrCorrupt)
	}
	if d.Task == nil {
		return d, nil
	}
	id, ok := d.Routing.Task()
	if !ok || id == "" {
		return task.Delivery{}, fmt.Errorf("decode delivery: %w: a task, but routing %q", ErrCorrupt, d.Routing)
	}
	d.Task.ID = id
	if d.Task.CloneURL == "" && d.Repo != "" {
		d.Task.CloneURL = cloneURL(d.Repo)
	}
	return d, nil
}
