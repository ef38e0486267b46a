package task

import "encoding/json"

// Scan reads a delivery as encoding/json does, only faster; on false it is as
// it was, and encoding/json has the word.
func (d *Delivery) Scan(data []byte) bool {
	var n Delivery
	if !Scan(data, n.scan) {
		return false
	}
	*d = n
	return true
}

func (d *Delivery) scan(key, value []byte) bool {
	switch string(key) {
	case "v":
		return ScanInt(value, &d.V)
	case "source":
		return ScanString(value, &d.Source)
	case "delivery_id":
		return ScanString(value, &d.ID)
	case "hook_id":
		return ScanString(value, &d.HookID)
	case "replay_of":
		return ScanString(value, &d.ReplayOf)
	case "event":
		return ScanString(value, &d.Event)
	case "action":
		return ScanString(value, &d.Action)
	case "installation_id":
		return ScanInt(value, &d.InstallationID)
	case "repo_id":
		return ScanInt(value, &d.RepoID)
	case "repo":
		return ScanString(value, &d.Repo)
	case "number":
		return ScanInt(value, &d.Number)
	case "payload_hash":
		return ScanString(value, &d.PayloadHash)
	case "routing":
		return ScanString(value, &d.Routing)
	case "received_at":
		return ScanTime(value, &d.ReceivedAt)
	case "task":
		if d.Task != nil || isNull(value) {
			return false
		}
		d.Task = &Spec{}
		return Scan(value, d.Task.scan)
	}
	return false
}

func (s *Spec) scan(key, value []byte) bool {
	switch string(key) {
	case "id":
		return ScanString(value, &s.ID)
	case "familiar_id":
		return ScanString(value, &s.FamiliarID)
	case "kind":
		return s.Kind.scan(value)
	case "commander":
		return ScanString(value, &s.Commander)
	case "head_sha":
		return ScanString(value, &s.HeadSHA)
	case "clone_url":
		return ScanString(value, &s.CloneURL)
	case "default_branch":
		return ScanString(value, &s.DefaultBranch)
	case "once":
		return ScanBool(value, &s.Once)
	case "operator":
		return s.Operator == nil && json.Unmarshal(value, &s.Operator) == nil
	case "rule":
		return s.Rule == nil && json.Unmarshal(value, &s.Rule) == nil
	case "review":
		if s.Review != nil || isNull(value) {
			return false
		}
		s.Review = &Review{}
		return Scan(value, s.Review.scan)
	}
	return false
}

func (r *Review) scan(key, value []byte) bool {
	switch string(key) {
	case "before":
		return ScanString(value, &r.Before)
	case "updated_at":
		return ScanTime(value, &r.UpdatedAt)
	}
	return false
}
