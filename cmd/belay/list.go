package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// maxPage is the largest page that the API gives.
const maxPage = 1000

// listFlags are the flags of every list.
type listFlags struct {
	limit        int
	all          bool
	cursor       string
	repo         string
	installation string
}

func (f *listFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.limit, "limit", 50, "how many to show")
	flags.BoolVar(&f.all, "all", false, "show all")
	flags.StringVar(&f.cursor, "cursor", "", "go on where another list ended")
	flags.StringVar(&f.repo, "repo", "", "only of `owner/name`")
	flags.StringVar(&f.installation, "installation", "", "only of one installation `id`")
	cmd.MarkFlagsMutuallyExclusive("limit", "all")
}

// query is the filters as parameters.
func (f *listFlags) query() url.Values {
	q := url.Values{}
	if f.repo != "" {
		q.Set("repo", f.repo)
	}
	if f.installation != "" {
		q.Set("installation", f.installation)
	}
	return q
}

// listing is what differs between the lists.
type listing struct {
	short      string
	path, name string // of the API, and of the items in its answer
	many       string // what people call them
	head       []string
	row        func(json.RawMessage) ([]string, error)
	// filters are the list's own parameters, by name; empty ones are left out.
	filters map[string]*string
}

// listCommand is a list's `ls`.
func (c *cli) listCommand(l listing) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   l.short,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := c.dial()
			if err != nil {
				return err
			}
			q := f.query()
			for name, v := range l.filters {
				if *v != "" {
					q.Set(name, *v)
				}
			}
			p, err := f.fetch(cmd.Context(), a, l.path, l.name, q)
			if err != nil {
				return err
			}
			return c.print(p, l.many, l.name, l.head, l.row)
		},
	}
	f.add(cmd)
	return cmd
}

// page is a list as the API answers it, with its items under a name.
type page struct {
	items []json.RawMessage
	next  string
}

// fetch reads a list page by page until it has what the flags ask for.
func (f *listFlags) fetch(ctx context.Context, a *apiClient, path, name string, q url.Values) (page, error) {
	if f.limit < 1 && !f.all {
		return page{}, usageError("--limit %d: write a number from 1 on", f.limit)
	}
	out := page{items: []json.RawMessage{}, next: f.cursor}
	for {
		want := maxPage
		if !f.all {
			want = min(f.limit-len(out.items), maxPage)
		}
		q.Set("limit", strconv.Itoa(want))
		if out.next != "" {
			q.Set("cursor", out.next)
		}
		ans, err := a.get(ctx, path, q)
		if err != nil {
			return page{}, err
		}
		got, err := readPage(a, ans, name)
		if err != nil {
			return page{}, err
		}
		out.items = append(out.items, got.items...)
		repeated := got.next == out.next
		out.next = got.next
		if out.next == "" || !f.all && len(out.items) >= f.limit {
			return out, nil
		}
		if repeated {
			return page{}, fmt.Errorf("read %s of %s: the cursor does not move", name, a.base)
		}
	}
}

func readPage(a *apiClient, ans answer, name string) (page, error) {
	var body map[string]json.RawMessage
	if err := a.decode(ans, &body); err != nil {
		return page{}, err
	}
	var p page
	if err := json.Unmarshal(body[name], &p.items); err != nil {
		return page{}, fmt.Errorf("read %s of %s: %w: check --server", name, a.base, err)
	}
	if next, ok := body["nextCursor"]; ok {
		if err := json.Unmarshal(next, &p.next); err != nil {
			return page{}, fmt.Errorf("read cursor of %s: %w", a.base, err)
		}
	}
	return p, nil
}

// print writes a page as JSON under a key, or as a table made of row. what is
// what its items are called.
func (c *cli) print(p page, what, name string, header []string, row func(json.RawMessage) ([]string, error)) error {
	if c.output == outputJSON {
		body := map[string]any{"ok": true, name: p.items}
		if p.next != "" {
			body["nextCursor"] = p.next
		}
		return printJSON(c.out, body)
	}
	if len(p.items) == 0 {
		_, err := fmt.Fprintf(c.err, "no %s\n", what)
		return err
	}
	rows := make([][]string, 0, len(p.items))
	for _, item := range p.items {
		r, err := row(item)
		if err != nil {
			return fmt.Errorf("read one of the %s: %w", what, err)
		}
		rows = append(rows, r)
	}
	if err := table(c.out, header, rows); err != nil {
		return err
	}
	if p.next != "" {
		fmt.Fprintf(c.err, "there are more: --all shows them, --cursor %s goes on\n", safe(p.next))
	}
	return nil
}
