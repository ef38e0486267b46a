package task

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// The number of fields that Append writes. A record with another number has
// one that it does not know: encoding/json writes it then.
const (
	recordFields   = 41
	attemptFields  = 9
	kindFields     = 11
	specFields     = 11
	deliveryFields = 15
)

var (
	appendsRecord = reflect.TypeFor[Record]().NumField() == recordFields &&
		reflect.TypeFor[Attempt]().NumField() == attemptFields && reflect.TypeFor[Kind]().NumField() == kindFields
	appendsDelivery = reflect.TypeFor[Delivery]().NumField() == deliveryFields &&
		reflect.TypeFor[Spec]().NumField() == specFields && reflect.TypeFor[Kind]().NumField() == kindFields
)

// Append appends the record's JSON, byte for byte that of encoding/json.
func (r *Record) Append(b []byte) ([]byte, error) {
	if !appendsRecord {
		return appendAny(b, r)
	}
	w := writer{b: append(b, '{')}
	w.int("v", int64(r.V))
	w.str("id", string(r.ID))
	w.str("source", r.Source)
	w.str("delivery_id", string(r.DeliveryID))
	w.key("delivery_seq")
	w.b = strconv.AppendUint(w.b, r.DeliverySeq, 10)
	w.int("installation_id", r.InstallationID)
	w.optInt("repo_id", r.RepoID)
	w.str("repo", r.Repo)
	w.optStr("clone_url", r.CloneURL)
	w.optStr("default_branch", r.DefaultBranch)
	w.str("familiar_id", r.FamiliarID)
	if r.Kind != (Kind{}) {
		w.kind(&r.Kind)
	}
	w.optStr("commander", r.Commander)
	w.str("state", string(r.State))
	w.optStr("supersede_key", r.SupersedeKey)
	w.str("title", r.Title)
	w.optInt("number", int64(r.Number))
	w.optStr("head_sha", r.HeadSHA)
	w.optStr("reason", r.Reason)
	w.optStr("superseded_by", string(r.SupersededBy))
	if r.BeatenBy != nil {
		w.any("beaten_by", r.BeatenBy)
	}
	w.optTime("not_before", r.NotBefore)
	w.int("attempts", int64(r.Attempts))
	w.optInt("budget_from", int64(r.BudgetFrom))
	w.optInt("spent_before", int64(r.SpentBefore))
	r.appendResult(&w)
	w.time("created_at", r.CreatedAt)
	w.time("updated_at", r.UpdatedAt)
	return append(w.b, '}'), w.err
}

func (r *Record) appendResult(w *writer) {
	w.optStr("result_status", string(r.ResultStatus))
	w.optStr("branch", r.Branch)
	w.optInt("pr_number", int64(r.PRNumber))
	w.optStr("pr_url", r.PRURL)
	w.optStr("check_run_url", r.CheckRunURL)
	w.optStr("summary", r.Summary)
	w.optStr("surfaces", string(r.Surfaces))
	if r.Operator != nil {
		w.any("operator", r.Operator)
	}
	if r.Rule != nil {
		w.any("rule", r.Rule)
	}
	if len(r.Unshown) > 0 {
		w.any("unshown", r.Unshown)
	}
	if len(r.Intents) > 0 {
		w.any("intents", r.Intents)
	}
	w.optInt("outbox_next", int64(r.OutboxNext))
	if len(r.AttemptLog) > 0 {
		w.key("attempt_log")
		for i := range r.AttemptLog {
			w.b = append(w.b, "[,"[min(i, 1)], '{')
			r.AttemptLog[i].append(w)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	if r.Tombstone {
		w.key("tombstone")
		w.b = append(w.b, "true"...)
	}
}

func (a *Attempt) append(w *writer) {
	w.int("n", int64(a.N))
	w.str("worker", a.Worker)
	w.str("boot", string(a.Boot))
	w.str("nonce", a.Nonce)
	w.time("started_at", a.StartedAt)
	w.optTime("ended_at", a.EndedAt)
	w.optStr("outcome", string(a.Outcome))
	w.optStr("detail", a.Detail)
	w.optStr("tail", a.Tail)
}

// Append appends the delivery's JSON, byte for byte that of encoding/json.
func (d *Delivery) Append(b []byte) ([]byte, error) {
	if !appendsDelivery {
		return appendAny(b, d)
	}
	w := writer{b: append(b, '{')}
	w.int("v", int64(d.V))
	w.str("source", d.Source)
	w.str("delivery_id", string(d.ID))
	w.optStr("hook_id", d.HookID)
	w.optStr("replay_of", string(d.ReplayOf))
	w.str("event", d.Event)
	w.optStr("action", d.Action)
	w.optInt("installation_id", d.InstallationID)
	w.optInt("repo_id", d.RepoID)
	w.optStr("repo", d.Repo)
	w.optInt("number", int64(d.Number))
	w.str("payload_hash", d.PayloadHash)
	w.str("routing", string(d.Routing))
	w.time("received_at", d.ReceivedAt)
	if s := d.Task; s != nil {
		w.key("task")
		w.b = append(w.b, '{')
		w.optStr("id", string(s.ID))
		w.str("familiar_id", s.FamiliarID)
		w.kind(&s.Kind)
		w.optStr("commander", s.Commander)
		w.optStr("head_sha", s.HeadSHA)
		w.optStr("clone_url", s.CloneURL)
		w.optStr("default_branch", s.DefaultBranch)
		if s.Review != nil {
			w.any("review", s.Review)
		}
		if s.Once {
			w.key("once")
			w.b = append(w.b, "true"...)
		}
		if s.Operator != nil {
			w.any("operator", s.Operator)
		}
		if s.Rule != nil {
			w.any("rule", s.Rule)
		}
		w.b = append(w.b, '}')
	}
	return append(w.b, '}'), w.err
}

func (w *writer) kind(k *Kind) {
	switch k.Name {
	case FixIssue, AddressReviewComment, ReviewPullRequest, CommandReply, CancelReviews:
	default:
		w.any("kind", k)
		return
	}
	w.key("kind")
	w.b = append(w.b, '{')
	w.str("kind", string(k.Name))
	switch k.Name {
	case FixIssue:
		w.int("issue_number", int64(k.IssueNumber))
		w.str("issue_title", k.IssueTitle)
		w.str("issue_body", k.IssueBody)
	case AddressReviewComment:
		w.int("pr_number", int64(k.PRNumber))
		w.str("comment_body", k.CommentBody)
		w.optStr("diff_hunk", k.DiffHunk)
	case ReviewPullRequest:
		w.int("pr_number", int64(k.PRNumber))
		w.str("pr_title", k.PRTitle)
		w.str("reason", k.Reason)
	case CommandReply:
		w.int("issue_number", int64(k.IssueNumber))
		w.str("body", k.Body)
	case CancelReviews:
		w.int("pr_number", int64(k.PRNumber))
	}
	w.b = append(w.b, '}')
}

func appendAny(b []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append(b, text...), nil
}
