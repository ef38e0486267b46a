package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// The stand-in of GitHub that the demo runs against has the one repository of
// the built-in payloads, somebody who maintains it and somebody who may read.
const (
	demoInstallation = 1
	demoRepo         = 1
	demoMaintainer   = "mona"
	demoReader       = "octocat"
)

// demoHeads are the first and the second head of the demo's pull request.
var demoHeads = [2]string{githubtest.SHA("first"), githubtest.SHA("second")}

// openGitHub starts the stand-in and configures belay as an App of it.
func (d *demo) openGitHub() error {
	gh, err := githubtest.New(githubtest.Options{Slug: "belay"})
	if err != nil {
		return err
	}
	d.gh = gh
	gh.AddInstallation(demoInstallation, "acme")
	gh.AddRepo(demoInstallation, githubtest.Repo{ID: demoRepo, Owner: "acme", Name: "shop"})
	gh.SetRole(demoRepo, demoMaintainer, "maintain")
	gh.SetRole(demoRepo, demoReader, "read")
	for _, n := range []int{1, 2, 4} {
		gh.AddIssue(demoRepo, githubtest.Issue{Number: n, Title: "The total of an empty cart is NaN", Login: demoReader})
		// There is no git behind the stand-in: what the task would push is there.
		gh.SetBranch(demoRepo, demoBranch(n), githubtest.SHA(demoBranch(n)))
	}
	gh.AddPull(demoRepo, githubtest.Pull{
		Number: 3, Title: "Add up an empty cart", Login: demoReader, Branch: "empty-cart", HeadSHA: demoHeads[0], Files: []string{"cart.go"},
	})
	c := &d.cfg.GitHub
	c.AppID, c.APIURL = gh.AppID(), gh.URL()
	return writeFile(c.PrivateKeyFile, gh.PrivateKey())
}

// demoBranch is where the task of an issue pushes to.
func demoBranch(issue int) string { return fmt.Sprintf("belay/issue-%d", issue) }

// hurry makes none of the pauses between writes that GitHub wants.
func hurry(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// shown counts what an issue or pull request shows, by kind: check runs are
// those of the tasks given.
func (d *demo) shown(number int, tasks ...string) string {
	checks := 0
	for _, c := range d.gh.Checks(demoRepo) {
		if slices.Contains(tasks, c.ExternalID) {
			checks++
		}
	}
	pulls := 0
	for _, p := range d.gh.Pulls(demoRepo) {
		if p.Branch == demoBranch(number) {
			pulls++
		}
	}
	return strings.Join([]string{
		counted(checks, "check run"), counted(len(d.gh.Comments(demoRepo, number)), "comment"), counted(pulls, "pull request"),
	}, ", ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// One check run, one comment and one pull request are what a task shows.
const (
	demoOneOfEach = "1 check run, 1 comment, 1 pull request"
	demoSays      = "said in the one comment"
)

// conclusion is how a task's check run stands.
func (d *demo) conclusion(id string) string {
	for _, c := range d.gh.Checks(demoRepo) {
		if c.ExternalID == id {
			return strings.TrimSuffix(c.Status+" "+c.Conclusion, " ")
		}
	}
	return "none"
}

// says reports whether an issue's one comment says a text.
func (d *demo) says(number int, text string) string {
	all := d.gh.Comments(demoRepo, number)
	switch {
	case len(all) != 1:
		return fmt.Sprintf("%d comments", len(all))
	case strings.Contains(all[0].Body, text):
		return demoSays
	}
	return "not said"
}

// roles names the roles whose tokens were given out, each for one repository.
func (d *demo) roles() string {
	var out []string
	for _, r := range githubapp.Roles {
		want := r.Permissions()
		want["metadata"] = "read" // comes with all
		for _, g := range d.gh.Grants() {
			if maps.Equal(g.Permissions, want) && slices.Equal(g.Repositories, []int64{demoRepo}) {
				out = append(out, string(r))
				break
			}
		}
	}
	return strings.Join(out, ", ")
}

// began waits until the first task shows that it runs.
func (d *demo) began(ctx context.Context, id string) error {
	_, err := d.until(ctx, "the task to show on GitHub", func(map[string]string) bool {
		return d.conclusion(id) == "in_progress" && len(d.gh.Comments(demoRepo, 1)) == 1
	})
	return err
}

// published looks at what the first tasks have left on GitHub.
func (d *demo) published(ids demoIDs) {
	d.table.check("what issue #1 shows, though its run was interrupted", d.shown(1, ids.assigned), demoOneOfEach)
	d.table.check("its check run", d.conclusion(ids.assigned), "completed success")
	d.table.check("its comment, edited in place", d.says(1, "did nothing for"), demoSays)
	d.table.check("tokens for one repository each", d.roles(), "orchestration, agent, publication")
	d.table.check("the check run of the superseded review", d.conclusion(ids.first), "none")
	d.table.check("that of the newest one", d.conclusion(ids.second), "completed success")
	d.table.check("its finding", d.says(3, "`cart.go:1`"), demoSays)
}

// talk gives commands on issue #1, as people do in its comments.
func (d *demo) talk(ctx context.Context, ids demoIDs) error {
	n := len(d.gh.Mutations())
	for _, c := range []struct{ what, login, body, want string }{
		{"somebody mentions the bot in passing", demoReader, "thanks, @belay", "ignored: unroutable"},
		{"the bot mentions itself", d.gh.Login(), "@belay retry", "ignored: self"},
	} {
		got, err := d.comment(ctx, c.login, c.body)
		if err != nil {
			return err
		}
		d.table.check(c.what, kindOf(got), c.want)
	}
	got, err := d.repeat()
	if err != nil {
		return err
	}
	d.table.check("GitHub delivers the first again, now that it is done", kindOf(got), "a duplicate")
	d.table.check("what these three changed on GitHub", fmt.Sprint(len(d.gh.Mutations())-n), "0")
	for _, c := range []struct{ what, login, body, says string }{
		{"an unknown verb is clarified", demoReader, "@belay dance", "I don't know that command"},
		{"status is answered", demoReader, "@belay status", ids.assigned},
		{"who may only read is declined", demoReader, "@belay retry", "Declined: `" + demoReader + "`"},
	} {
		got, err := d.comment(ctx, c.login, c.body)
		if err != nil {
			return err
		}
		if _, err := d.until(ctx, c.what, func(map[string]string) bool { return d.says(1, c.says) == demoSays }); err != nil {
			return err
		}
		d.table.check(c.what, d.says(1, c.says)+", "+d.shown(1, ids.assigned, got.Task), demoSays+", "+demoOneOfEach)
	}
	if got, err = d.comment(ctx, demoMaintainer, "@belay retry"); err != nil {
		return err
	}
	list, err := d.until(ctx, "the retry to end", func(l map[string]string) bool { return l[got.Task] == "review" })
	if err != nil {
		return err
	}
	d.table.check("a maintainer's retry runs again", list[got.Task]+", "+d.conclusion(got.Task), "review, completed success")
	d.table.check("what issue #1 shows in the end", d.shown(1, ids.assigned, got.Task), "2 check runs, 1 comment, 1 pull request")
	return nil
}

// comment sends a comment on issue #1.
func (d *demo) comment(ctx context.Context, login, body string) (hookAnswer, error) {
	_, got, err := d.post(ctx, letter{event: "issue_comment.created", id: freshID(), set: []string{
		"issue.number=1", "comment.body=" + body, "comment.user.login=" + login, "sender.login=" + login,
	}})
	return got, err
}
