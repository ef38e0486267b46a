package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// logView prints the log of a task.
type logView struct {
	c       *cli
	a       *apiClient
	id      string
	attempt int  // 0: the newest
	raw     bool // bytes as they are
	shown   int  // bytes printed so far
	of      int  // the attempt that shown belongs to
	noted   bool // that it is only a tail
}

func (c *cli) tasksLogsCommand() *cobra.Command {
	l := &logView{c: c}
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the output of a task's command",
		Args:  oneID("task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			l.a, l.id = a, args[0]
			if follow {
				return l.follow(cmd.Context())
			}
			return l.print(cmd.Context(), l.attempt)
		},
	}
	cmd.Flags().IntVar(&l.attempt, "attempt", 0, "the `number` of an attempt (default: the newest)")
	cmd.Flags().BoolVar(&l.raw, "raw", false, "print bytes as they are, control characters included")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	cmd.MarkFlagsMutuallyExclusive("attempt", "follow")
	return cmd
}

// print writes what the log of an attempt has beyond what was shown.
func (l *logView) print(ctx context.Context, attempt int) error {
	q := url.Values{}
	if attempt > 0 {
		q.Set("attempt", strconv.Itoa(attempt))
	}
	ans, err := l.a.get(ctx, tasksPath+"/"+url.PathEscape(l.id)+"/log", q)
	if err != nil {
		return withNext(err, http.StatusNotFound, "`belay tasks show "+safe(l.id)+"` tells whether it ran")
	}
	if ans.header.Get("Belay-Log") == "tail" && !l.noted {
		l.noted = true
		fmt.Fprintln(l.c.err, "belay: the whole log is on another machine, or no longer kept; this is its end")
	}
	if attempt != l.of {
		l.of, l.shown = attempt, 0
	}
	if len(ans.body) <= l.shown {
		return nil
	}
	text := string(ans.body[l.shown:])
	l.shown = len(ans.body)
	if !l.raw {
		text = safeText(text)
	}
	_, err = io.WriteString(l.c.out, text)
	return err
}

// follow prints the log of each attempt as it grows, until the task ends.
func (l *logView) follow(ctx context.Context) error {
	for {
		ans, err := l.a.get(ctx, tasksPath+"/"+url.PathEscape(l.id), nil)
		if err != nil {
			return noTask(err)
		}
		var body struct {
			Task taskDetail `json:"task"`
		}
		if err := l.a.decode(ans, &body); err != nil {
			return err
		}
		t := body.Task
		if n := len(t.Attempts); n > 0 {
			if err := l.printExisting(ctx, t.Attempts[n-1].N); err != nil {
				return err
			}
		}
		if !t.open() {
			fmt.Fprintf(l.c.err, "belay: the task is %s\n", safe(t.Status))
			return nil
		}
		timer := time.NewTimer(l.c.poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// printExisting is print for a log that may not be there yet.
func (l *logView) printExisting(ctx context.Context, attempt int) error {
	err := l.print(ctx, attempt)
	if e := (*apiError)(nil); errors.As(err, &e) && e.status == http.StatusNotFound {
		return nil
	}
	return err
}
