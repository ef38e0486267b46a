package githubapp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Routes are the triggers that are switched on, for Manifest and Needs.
type Routes struct {
	Assignment bool
	Label      bool
	Command    bool
	Review     bool
	// Rules are the events of configured rules.
	Rules []string
}

// ManifestOptions are the rest of a manifest.
type ManifestOptions struct {
	Name       string // unique on GitHub
	URL        string // the App's home page
	WebhookURL string
	Public     bool
}

// eventPermissions are the permissions that let an App subscribe to an event.
var eventPermissions = map[string]string{
	"branch_protection_rule": "administration", "check_run": "checks", "check_suite": "checks", "code_scanning_alert": "security_events",
	"commit_comment": "contents", "create": "contents", "delete": "contents", "dependabot_alert": "vulnerability_alerts",
	"deploy_key": "administration", "deployment": "deployments", "deployment_status": "deployments", "discussion": "discussions",
	"discussion_comment": "discussions", "fork": "contents", "gollum": "contents", "issue_comment": "issues", "issues": "issues",
	"label": "metadata", "member": "members", "merge_group": "merge_queues", "milestone": "issues", "page_build": "pages", "public": "metadata",
	"pull_request": "pull_requests", "pull_request_review": "pull_requests", "pull_request_review_comment": "pull_requests",
	"pull_request_review_thread": "pull_requests", "push": "contents", "release": "contents", "repository": "metadata",
	"repository_dispatch": "contents", "secret_scanning_alert": "secret_scanning_alerts", "star": "metadata", "status": "statuses",
	"watch": "metadata", "workflow_dispatch": "contents", "workflow_job": "actions", "workflow_run": "actions",
}

// Needs are the permissions and events that an App wants for the routes. An
// event of a rule that no App can subscribe to is an error.
func Needs(r Routes) (permissions map[string]string, events []string, err error) {
	permissions = map[string]string{"metadata": "read"}
	for _, role := range Roles {
		for name, level := range role.Permissions() {
			if permissions[name] != "write" {
				permissions[name] = level
			}
		}
	}
	want := map[string]bool{}
	add := func(on bool, names ...string) {
		for _, n := range names {
			want[n] = want[n] || on
		}
	}
	add(r.Assignment || r.Label, "issues")
	add(r.Label || r.Review, "pull_request")
	add(r.Command, "issue_comment", "pull_request_review", "pull_request_review_comment")
	// A command can ask for a review, which a pull request's end supersedes.
	add(r.Command, "pull_request")
	for _, event := range r.Rules {
		name, ok := eventPermissions[event]
		if !ok {
			return nil, nil, fmt.Errorf("list the permissions of rules: an app cannot subscribe to %q", event)
		}
		if permissions[name] == "" {
			permissions[name] = "read"
		}
		want[event] = true
	}
	maps.DeleteFunc(want, func(_ string, on bool) bool { return !on })
	return permissions, slices.Sorted(maps.Keys(want)), nil
}

// Manifest is the JSON from which GitHub makes an App with what the routes
// need and no more (docs.github.com, Registering a GitHub App from a manifest).
func Manifest(r Routes, o ManifestOptions) ([]byte, error) {
	permissions, events, err := Needs(r)
	if err != nil {
		return nil, err
	}
	out := struct {
		Name        string            `json:"name"`
		URL         string            `json:"url"`
		Hook        map[string]any    `json:"hook_attributes"`
		Public      bool              `json:"public"`
		Permissions map[string]string `json:"default_permissions"`
		Events      []string          `json:"default_events"`
	}{o.Name, o.URL, map[string]any{"url": o.WebhookURL, "active": true}, o.Public, permissions, events}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return append(b, '\n'), nil
}
