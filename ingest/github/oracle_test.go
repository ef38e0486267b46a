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
	o := view{m, event, routes[event] != nil}
	subject := event
	if event == "deployment_status" {
		subject = "deployment"
	}
	return &Event{
		Action: o.name("action", isPlain), Installation: o.at("installation").id("id"),
		Repository: o.at("repository").repository(),
		Sender:     o.at("sender").name("login", isLogin), Assignee: o.at("assignee").name("login", isLogin),
		Label: o.at("label").name("name", isPlain), Number: o.ordinal("number"), Before: o.name("before", isSHA),
		Ref: o.name("ref", isPlain), RefType: o.name("ref_type", isPlain), Branch: o.name("branch", isPlain),
		After: o.name("after", isSHA), SHA: o.name("sha", isSHA), Compare: o.name("compare", isURL),
		Deleted: o.m["deleted"] == true, HeadCommit: o.at("head_commit").commit(), Subject: o.subjectAt(subject),
		Issue: o.at("issue").issue(), PullRequest: o.at("pull_request").pull(),
		Comment: o.at("comment").comment("updated_at"), Review: o.at("review").comment("submitted_at"),
	}, true
}

type view struct {
	m     map[string]any
	event string
	texts bool
}

func (o view) at(key string) view {
	m, _ := o.m[key].(map[string]any)
	return view{m, o.event, o.texts}
}

func (o view) commit() Commit { return Commit{Title: o.line("message"), At: o.time("timestamp")} }

func (o view) line(key string) string {
	s, _ := o.m[key].(string)
	return firstLine(s)
}

func (o view) labels() (out []string) {
	list, _ := o.m["labels"].([]any)
	for _, e := range list {
		l := view{m: map[string]any{"name": e}}
		if m, ok := e.(map[string]any); ok {
			l.m = m
		}
		if name := l.name("name", isPlain); name != "" && len(out) < maxLabels {
			out = append(out, name)
		}
	}
	return out
}

// subjectAt is the object at a key that no other field of an Event has.
func (o view) subjectAt(key string) Subject {
	switch key {
	case "action", "number", "ref", "ref_type", "branch", "before", "after", "sha", "compare", "deleted", "sender", "assignee", "label",
		"installation", "head_commit", "repository", "issue", "pull_request", "comment", "review":
		return Subject{}
	}
	s := o.at(key)
	return Subject{
		App: s.at("app").id("id"), Title: s.line("title"), Name: s.line("name"), Tag: s.name("tag_name", isPlain),
		URL: s.name("html_url", isURL), HeadSHA: s.name("head_sha", isSHA), SHA: s.name("sha", isSHA),
		HeadBranch: s.name("head_branch", isPlain), SuiteBranch: s.at("check_suite").name("head_branch", isPlain),
		BaseRef: s.name("base_ref", isPlain), Target: s.name("target_commitish", isPlain), Ref: s.name("ref", isPlain),
		Labels: s.labels(), UpdatedAt: s.time("updated_at"), CompletedAt: s.time("completed_at"),
	}
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

func (o view) title() string {
	if o.texts {
		return o.text("title")
	}
	return o.line("title")
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
	pushed := time.Time{}
	if o.event == "push" {
		pushed = o.time("pushed_at")
	}
	return Repository{
		ID: o.id("id"), FullName: o.name("full_name", isRepo), CloneURL: o.name("clone_url", isURL),
		DefaultBranch: o.name("default_branch", isPlain), PushedAt: pushed,
	}
}

func (o view) issue() Issue {
	_, pr := o.m["pull_request"].(map[string]any)
	return Issue{
		Number: o.ordinal("number"), Title: o.title(), Body: o.text("body"), IsPullRequest: pr, URL: o.name("html_url", isURL), Labels: o.labels(),
		Author: o.at("user").name("login", isLogin), App: o.at("performed_via_github_app").id("id"),
		UpdatedAt: o.time("updated_at"),
	}
}

func (o view) pull() PullRequest {
	return PullRequest{
		Number: o.ordinal("number"), Title: o.title(), Draft: o.m["draft"] == true, URL: o.name("html_url", isURL), Labels: o.labels(),
		BaseRef: o.at("base").name("ref", isPlain),
		Author:  o.at("user").name("login", isLogin), HeadSHA: o.at("head").name("sha", isSHA),
		UpdatedAt: o.time("updated_at"),
	}
}

func (o view) comment(when string) Comment {
	return Comment{
		Author: o.at("user").name("login", isLogin), Body: o.text("body"), DiffHunk: o.text("diff_hunk"),
		UpdatedAt: o.time(when),
	}
}
