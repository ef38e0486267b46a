package github

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/belay-run/belay/kv/task"
)

// oracle decodes like Decode, by way of encoding/json's generic values.
func oracle(event string, body []byte) (*Event, bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || !json.Valid(body) {
		return nil, false
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	o := view{m, routes[event] != nil}
	return &Event{
		Action: o.name("action", isPlain), Installation: o.at("installation").id("id"),
		Repository: o.at("repository").repository(),
		Sender:     o.at("sender").name("login", isLogin), Assignee: o.at("assignee").name("login", isLogin),
		Label: o.at("label").name("name", isPlain), Number: o.ordinal("number"), Before: o.name("before", isSHA),
		Deleted: o.m["deleted"] == true, HeadCommitAt: o.at("head_commit").time("timestamp"),
		Issue: o.at("issue").issue(), PullRequest: o.at("pull_request").pull(),
		Comment: o.at("comment").comment("updated_at"), Review: o.at("review").comment("submitted_at"),
	}, true
}

type view struct {
	m     map[string]any
	texts bool
}

func (o view) at(key string) view {
	m, _ := o.m[key].(map[string]any)
	return view{m, o.texts}
}

func (o view) name(key string, ok func(string) bool) string {
	s, _ := o.m[key].(string)
	if len(s) > maxName || !ok(s) {
		return ""
	}
	return s
}

func (o view) text(key string) string {
	s, _ := o.m[key].(string)
	if !o.texts {
		return ""
	}
	return task.Cut(s, task.MaxText)
}

var digits = regexp.MustCompile(`^[0-9]+$`)

func (o view) id(key string) int64 {
	n, _ := o.m[key].(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil || !digits.MatchString(n.String()) {
		return 0
	}
	return i
}

func (o view) ordinal(key string) int {
	if n := o.id(key); n <= math.MaxInt32 {
		return int(n)
	}
	return 0
}

func (o view) time(key string) time.Time {
	if t, err := time.Parse(time.RFC3339, o.name(key, isPlain)); err == nil {
		return t.UTC()
	}
	if n := o.id(key); n > 0 && n < 1<<38 {
		return time.Unix(n, 0).UTC()
	}
	return time.Time{}
}

func (o view) repository() Repository {
	return Repository{
		ID: o.id("id"), FullName: o.name("full_name", isRepo), CloneURL: o.name("clone_url", isURL),
		DefaultBranch: o.name("default_branch", isPlain), PushedAt: o.time("pushed_at"),
	}
}

func (o view) issue() Issue {
	_, pr := o.m["pull_request"].(map[string]any)
	return Issue{
		Number: o.ordinal("number"), Title: o.text("title"), Body: o.text("body"), IsPullRequest: pr,
		Author: o.at("user").name("login", isLogin), App: o.at("performed_via_github_app").id("id"),
		UpdatedAt: o.time("updated_at"),
	}
}

func (o view) pull() PullRequest {
	return PullRequest{
		Number: o.ordinal("number"), Title: o.text("title"), Draft: o.m["draft"] == true,
		Author: o.at("user").name("login", isLogin), HeadSHA: o.at("head").name("sha", isSHA),
		UpdatedAt: o.time("updated_at"),
	}
}

func (o view) comment(when string) Comment {
	return Comment{
		Author: o.at("user").name("login", isLogin), Body: o.text("body"), DiffHunk: o.text("diff_hunk"),
		UpdatedAt: o.time(when),
	}
}
