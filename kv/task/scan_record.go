package task

import "encoding/json"

// Scan reads a record as encoding/json does, only faster; on false it is as
// it was, and encoding/json has the word.
func (r *Record) Scan(data []byte) bool {
	var n Record
	if !Scan(data, func(key, value []byte) bool {
		ok, known := n.scanOrigin(string(key), value)
		if !known {
			ok = n.scanProgress(string(key), value)
		}
		return ok
	}) {
		return false
	}
	*r = n
	return true
}

// scanOrigin reads the fields that admission sets.
func (r *Record) scanOrigin(key string, value []byte) (ok, known bool) {
	switch key {
	case "v":
		return ScanInt(value, &r.V), true
	case "id":
		return ScanString(value, &r.ID), true
	case "source":
		return ScanString(value, &r.Source), true
	case "delivery_id":
		return ScanString(value, &r.DeliveryID), true
	case "delivery_seq":
		return ScanUint(value, &r.DeliverySeq), true
	case "installation_id":
		return ScanInt(value, &r.InstallationID), true
	case "repo_id":
		return ScanInt(value, &r.RepoID), true
	case "repo":
		return ScanString(value, &r.Repo), true
	case "clone_url":
		return ScanString(value, &r.CloneURL), true
	case "default_branch":
		return ScanString(value, &r.DefaultBranch), true
	case "familiar_id":
		return ScanString(value, &r.FamiliarID), true
	case "kind":
		return r.Kind.scan(value), true
	case "commander":
		return ScanString(value, &r.Commander), true
	case "supersede_key":
		return ScanString(value, &r.SupersedeKey), true
	case "title":
		return ScanString(value, &r.Title), true
	case "number":
		return ScanInt(value, &r.Number), true
	case "operator":
		return r.Operator == nil && json.Unmarshal(value, &r.Operator) == nil, true
	case "rule":
		return r.Rule == nil && json.Unmarshal(value, &r.Rule) == nil, true
	case "head_sha":
		return ScanString(value, &r.HeadSHA), true
	case "created_at":
		return ScanTime(value, &r.CreatedAt), true
	}
	return false, false
}

// scanProgress reads the fields that change.
func (r *Record) scanProgress(key string, value []byte) bool {
	switch key {
	case "state":
		return ScanString(value, &r.State)
	case "updated_at":
		return ScanTime(value, &r.UpdatedAt)
	case "not_before":
		return ScanTime(value, &r.NotBefore)
	case "attempts":
		return ScanInt(value, &r.Attempts)
	case "attempt_log":
		return scanAttempts(value, &r.AttemptLog)
	case "reason":
		return ScanString(value, &r.Reason)
	case "summary":
		return ScanString(value, &r.Summary)
	case "result_status":
		return ScanString(value, &r.ResultStatus)
	case "branch":
		return ScanString(value, &r.Branch)
	case "pr_number":
		return ScanInt(value, &r.PRNumber)
	case "pr_url":
		return ScanString(value, &r.PRURL)
	case "surfaces":
		return ScanString(value, &r.Surfaces)
	case "outbox_next":
		return ScanInt(value, &r.OutboxNext)
	case "check_run_url":
		return ScanString(value, &r.CheckRunURL)
	case "superseded_by":
		return ScanString(value, &r.SupersededBy)
	case "budget_from":
		return ScanInt(value, &r.BudgetFrom)
	case "spent_before":
		return ScanInt(value, &r.SpentBefore)
	case "tombstone":
		return ScanBool(value, &r.Tombstone)
	case "beaten_by":
		return json.Unmarshal(value, &r.BeatenBy) == nil
	case "unshown":
		return r.Unshown == nil && json.Unmarshal(value, &r.Unshown) == nil
	case "intents":
		return r.Intents == nil && json.Unmarshal(value, &r.Intents) == nil
	}
	return false // a field that is new here: nothing is to be lost
}

func scanAttempts(value []byte, to *[]Attempt) bool {
	if *to != nil {
		return false
	}
	*to = []Attempt{}
	return ScanArray(value, func(e []byte) bool {
		var a Attempt
		ok := Scan(e, a.scan)
		*to = append(*to, a)
		return ok
	})
}

func (a *Attempt) scan(key, value []byte) bool {
	switch string(key) {
	case "n":
		return ScanInt(value, &a.N)
	case "worker":
		return ScanString(value, &a.Worker)
	case "boot":
		return ScanString(value, &a.Boot)
	case "nonce":
		return ScanString(value, &a.Nonce)
	case "started_at":
		return ScanTime(value, &a.StartedAt)
	case "ended_at":
		return ScanTime(value, &a.EndedAt)
	case "outcome":
		return ScanString(value, &a.Outcome)
	case "detail":
		return ScanString(value, &a.Detail)
	case "tail":
		return ScanString(value, &a.Tail)
	}
	return false // a field that is new here: nothing is to be lost
}

func (k *Kind) scan(value []byte) bool {
	var n Kind
	if Scan(value, n.field) {
		switch n.Name {
		case FixIssue, AddressReviewComment, ReviewPullRequest, CommandReply, CancelReviews:
			*k = n
			return true
		}
	}
	return json.Unmarshal(value, k) == nil
}

func (k *Kind) field(key, value []byte) bool {
	switch string(key) {
	case "kind":
		return ScanString(value, &k.Name)
	case "issue_number":
		return ScanInt(value, &k.IssueNumber)
	case "issue_title":
		return ScanString(value, &k.IssueTitle)
	case "issue_body":
		return ScanString(value, &k.IssueBody)
	case "pr_number":
		return ScanInt(value, &k.PRNumber)
	case "pr_title":
		return ScanString(value, &k.PRTitle)
	case "reason":
		return ScanString(value, &k.Reason)
	case "comment_body":
		return ScanString(value, &k.CommentBody)
	case "diff_hunk":
		return ScanString(value, &k.DiffHunk)
	case "body":
		return ScanString(value, &k.Body)
	}
	return false // a field that is new here: nothing is to be lost
}
