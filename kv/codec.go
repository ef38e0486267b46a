package kv

import (
	"encoding/json"
	"fmt"

	"github.com/belay-run/belay/kv/task"
)

// encodeRecord writes a record at this build's version and within MaxRecord:
// free text is cut, ever shorter until it fits.
func encodeRecord(r task.Record) ([]byte, error) {
	r.V = task.Version
	for _, limit := range []int{0, 16 << 10, 2 << 10, 256} {
		if limit > 0 {
			r = cutText(r, limit)
		}
		b, err := json.Marshal(&r)
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
