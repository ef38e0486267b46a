package view

import (
	"encoding/json"

	"github.com/belay-run/belay/kv/task"
)

// Scan reads the kept part of a record as encoding/json does, only faster; on
// false it is as it was, and encoding/json has the word.
func (s *shape) Scan(data []byte) bool {
	var n shape
	if !task.Scan(data, func(key, value []byte) bool {
		ok, known := n.scanTask(string(key), value)
		if !known {
			ok = n.scanResult(string(key), value)
		}
		return ok
	}) {
		return false
	}
	*s = n
	return true
}

func (s *shape) scanTask(key string, value []byte) (ok, known bool) {
	switch key {
	case "v":
		return task.ScanInt(value, &s.V), true
	case "id":
		return task.ScanString(value, &s.ID), true
	case "delivery_seq":
		return task.ScanUint(value, &s.DeliverySeq), true
	case "installation_id":
		return task.ScanInt(value, &s.InstallationID), true
	case "repo_id":
		return task.ScanInt(value, &s.RepoID), true
	case "repo":
		return task.ScanString(value, &s.Repo), true
	case "familiar_id":
		return task.ScanString(value, &s.FamiliarID), true
	case "kind":
		return task.Scan(value, func(key, value []byte) bool {
			return string(key) != "kind" || task.ScanString(value, &s.Kind.Kind)
		}), true
	case "state":
		return task.ScanString(value, &s.State), true
	case "title":
		return task.ScanString(value, &s.Title), true
	case "number":
		return task.ScanInt(value, &s.Number), true
	case "created_at":
		return task.ScanTime(value, &s.CreatedAt), true
	case "updated_at":
		return task.ScanTime(value, &s.UpdatedAt), true
	}
	return false, false
}

// scanResult passes over what the index does not keep.
func (s *shape) scanResult(key string, value []byte) bool {
	switch key {
	case "superseded_by":
		return task.ScanString(value, &s.SupersededBy)
	case "not_before":
		return task.ScanTime(value, &s.NotBefore)
	case "attempts":
		return task.ScanInt(value, &s.Attempts)
	case "result_status":
		return task.ScanString(value, &s.ResultStatus)
	case "branch":
		return task.ScanString(value, &s.Branch)
	case "pr_number":
		return task.ScanInt(value, &s.PRNumber)
	case "pr_url":
		return task.ScanString(value, &s.PRURL)
	case "check_run_url":
		return task.ScanString(value, &s.CheckRunURL)
	case "rule":
		return s.Rule == nil && json.Unmarshal(value, &s.Rule) == nil
	case "tombstone":
		return task.ScanBool(value, &s.Tombstone)
	case "attempt_log":
		return s.scanAttempts(value)
	}
	return true
}

func (s *shape) scanAttempts(value []byte) bool {
	if s.AttemptLog != nil {
		return false
	}
	s.AttemptLog = []shapeAttempt{}
	return task.ScanArray(value, func(e []byte) bool {
		var a shapeAttempt
		ok := task.Scan(e, func(key, value []byte) bool {
			switch string(key) {
			case "n":
				return task.ScanInt(value, &a.N)
			case "boot":
				return task.ScanString(value, &a.Boot)
			case "nonce":
				return task.ScanString(value, &a.Nonce)
			case "started_at":
				return task.ScanTime(value, &a.StartedAt)
			case "ended_at":
				return task.ScanTime(value, &a.EndedAt)
			}
			return true
		})
		s.AttemptLog = append(s.AttemptLog, a)
		return ok
	})
}
