package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
)

// demoTable collects what was done, what came of it, and whether that is right.
type demoTable struct{ rows []demoRow }

type demoRow struct {
	what, got, want string
	ok              bool
}

func (t *demoTable) check(what, got, want string) {
	t.rows = append(t.rows, demoRow{what: what, got: got, want: want, ok: got == want})
}

func (t *demoTable) failed() int {
	n := 0
	for _, r := range t.rows {
		if !r.ok {
			n++
		}
	}
	return n
}

func (t *demoTable) print(w io.Writer) {
	rows := make([][]string, len(t.rows))
	for i, r := range t.rows {
		mark := "ok"
		if !r.ok {
			mark = "FAILED, wanted " + r.want
		}
		rows[i] = []string{r.what, r.got, mark}
	}
	_ = table(w, []string{"WHAT HAPPENED", "WHAT BELAY DID", "CHECK"}, rows)
}

// demoIDs are the tasks that the acts made.
type demoIDs struct{ assigned, labeled, first, second, form string }

// play runs the acts in order; an error is one that no check speaks of.
func (d *demo) play(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	ids, err := d.arrivals(ctx)
	if err != nil {
		return err
	}
	if err := d.refusals(ctx); err != nil {
		return err
	}
	if err := d.restart(ctx, ids); err != nil {
		return err
	}
	if err := d.finish(ctx, ids); err != nil {
		return err
	}
	d.published(ids)
	return d.talk(ctx, ids)
}

// arrivals sends what makes tasks, while the first of them holds the one slot.
func (d *demo) arrivals(ctx context.Context) (ids demoIDs, err error) {
	first := letter{event: "issues.assigned", id: freshID(), set: []string{"issue.number=1"}}
	h, err := d.hook(first)
	if err != nil {
		return ids, err
	}
	send := func() (hookAnswer, error) {
		ans, err := d.client.deliver(ctx, h)
		if err != nil {
			return hookAnswer{}, err
		}
		return readHook(ans), nil
	}
	got, err := send()
	if err != nil {
		return ids, err
	}
	ids.assigned = got.Task
	d.repeat = send
	d.table.check("an issue is assigned to the bot", kindOf(got), "a task")
	if _, err := d.until(ctx, "the task to run", func(l map[string]string) bool { return l[ids.assigned] == "running" }); err != nil {
		return ids, err
	}
	if err := d.began(ctx, ids.assigned); err != nil {
		return ids, err
	}
	d.table.check("what the issue shows while the task runs", d.shown(1, ids.assigned)+", "+d.says(1, "Working"), "1 check run, 1 comment, 0 pull requests, "+demoSays)
	got, err = send()
	if err != nil {
		return ids, err
	}
	d.table.check("GitHub delivers it once more", kindOf(got)+" "+sameAs(got.Task, ids.assigned), "a duplicate of the same task")
	for _, s := range []struct {
		what, want string
		l          letter
		id         *string
	}{
		{"an issue gets the bot's label", "a task", letter{event: "issues.labeled", set: []string{"issue.number=2"}}, &ids.labeled},
		{"a pull request is opened", "a task", letter{event: "pull_request.opened", set: pushedTo(3, 0)}, &ids.first},
		{"a commit is pushed to it before its review began", "a task", letter{event: "pull_request.synchronize", set: append(pushedTo(3, 1), "before="+demoHeads[0], "after="+demoHeads[1])}, &ids.second},
		{"an issue is labeled, sent as a form", "a task", letter{event: "issues.labeled", form: true, set: []string{"issue.number=4"}}, &ids.form},
	} {
		s.l.id = freshID()
		_, got, err := d.post(ctx, s.l)
		if err != nil {
			return ids, err
		}
		if s.id != nil {
			*s.id = got.Task
		}
		d.table.check(s.what, kindOf(got), s.want)
	}
	list, err := d.until(ctx, "the older review to be superseded", func(l map[string]string) bool {
		return l[ids.first] == "superseded" && l[ids.second] == "queued" && len(l) == 5
	})
	if err != nil {
		return ids, err
	}
	d.table.check("the review of the older commit", list[ids.first], "superseded")
	d.gh.SetBranch(demoRepo, "empty-cart", demoHeads[1])
	return ids, nil
}

// pushedTo sets the number and the head of a pull request.
func pushedTo(number, head int) []string {
	n := fmt.Sprint(number)
	return []string{"pull_request.number=" + n, "number=" + n, "pull_request.head.sha=" + demoHeads[head]}
}

// refusals sends what must not be stored.
func (d *demo) refusals(ctx context.Context) error {
	for _, s := range []struct {
		what string
		want int
		l    letter
	}{
		{"a webhook with a wrong signature", http.StatusUnauthorized, letter{event: "issues.labeled", id: freshID(), wrong: true}},
		{"a webhook without a delivery id", http.StatusBadRequest, letter{event: "issues.labeled"}},
	} {
		status, _, err := d.post(ctx, s.l)
		if err != nil {
			return err
		}
		d.table.check(s.what, fmt.Sprint("refused with ", status), fmt.Sprint("refused with ", s.want))
	}
	_, got, err := d.post(ctx, letter{event: "brand_new", id: freshID()})
	if err != nil {
		return err
	}
	d.table.check("an event that belay does not know", kindOf(got), "ignored: unsupported_event")
	return nil
}

// restart kills the server in the middle of a run and starts it again.
func (d *demo) restart(ctx context.Context, ids demoIDs) error {
	before, err := d.tasks(ctx)
	if err != nil {
		return err
	}
	if err := d.end(syscall.SIGKILL); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	after, err := d.until(ctx, "the interrupted task to run again", func(l map[string]string) bool { return l[ids.assigned] == "running" })
	if err != nil {
		return err
	}
	d.table.check("the server is killed (SIGKILL) in the middle and starts again", fmt.Sprintf("%d of %d tasks kept", len(after), len(before)), "5 of 5 tasks kept")
	got, err := d.repeat()
	if err != nil {
		return err
	}
	d.table.check("GitHub delivers the first once more", kindOf(got)+" "+sameAs(got.Task, ids.assigned), "a duplicate of the same task")
	return nil
}

// finish lets the tasks end and looks at what became of each.
func (d *demo) finish(ctx context.Context, ids demoIDs) error {
	if err := writeFile(demoGate(d.dir), nil); err != nil {
		return err
	}
	list, err := d.until(ctx, "all tasks to end", func(l map[string]string) bool {
		for _, s := range l {
			if s == "queued" || s == "running" {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	n, err := d.attempts(ctx, ids.assigned)
	if err != nil {
		return err
	}
	d.table.check("the interrupted task", list[ids.assigned]+", its attempts: "+n, "review, its attempts: interrupted, completed")
	d.table.check("the labeled issue and the form", list[ids.labeled]+", "+list[ids.form], "review, review")
	d.table.check("the review of the newest commit", list[ids.second], "done")
	var all []string
	for _, s := range list {
		all = append(all, s)
	}
	slices.Sort(all)
	d.table.check("the list at the end", fmt.Sprint(all), "[done review review review superseded]")
	return nil
}

// kindOf says in a word what an answer was.
func kindOf(h hookAnswer) string {
	switch {
	case h.Duplicate:
		return "a duplicate"
	case h.Task != "":
		return "a task"
	case h.Ignored != "":
		return "ignored: " + h.Ignored
	}
	return "refused"
}

func sameAs(id, want string) string {
	if id == want && id != "" {
		return "of the same task"
	}
	return "of another task"
}
