package view

import (
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/tidwall/btree"

	"github.com/belay-run/belay/kv/task"
)

// Usage is what one familiar did for one repository: each listed task once,
// however many attempts it took (DT-100). A task counts on the day, in UTC,
// that it was created on, with the state that it has now.
type Usage struct {
	InstallationID int64
	Repo           string
	FamiliarID     string
	Tasks          int
	Completed      int
	Failed         int
	// Runtime is that of the attempts that ended.
	Runtime time.Duration
}

// UsageQuery selects a page of the usage. Zero fields do not filter.
type UsageQuery struct {
	// Installation and Repos are the caller's scope: nil means all.
	Installation *int64
	Repos        []string
	Repo         string
	// Since and Until are the first and the last day, in UTC.
	Since, Until time.Time
	// Limit is the largest number of rows, at least 1.
	Limit int
	// Cursor is the Next of the page before, "" for the first page.
	Cursor string
}

// UsagePage is a part of the usage, by installation, repository and familiar.
type UsagePage struct {
	Rows []Usage
	// Next is the opaque cursor of the following page, "" at the end.
	Next string
}

// usageKey names a row.
type usageKey struct {
	inst           int64
	repo, familiar unique.Handle[string]
}

// usageRow is a row, its days in order.
type usageRow struct {
	usageKey
	days []usageDay
}

// usageDay is what was created on one day.
type usageDay struct {
	day                      int32 // since 1970
	tasks, completed, failed int32
	runtime                  int64 // milliseconds
}

func byUsage(a, b *usageRow) bool {
	return cmp.Or(cmp.Compare(a.inst, b.inst), strings.Compare(a.repo.Value(), b.repo.Value()), strings.Compare(a.familiar.Value(), b.familiar.Value())) < 0
}

// usages counts as tasks come and go, so that nothing is scanned for a page.
type usages struct {
	rows map[usageKey]*usageRow
	list *btree.BTreeG[*usageRow]
}

func newUsages() *usages {
	return &usages{rows: map[usageKey]*usageRow{}, list: btree.NewBTreeGOptions(byUsage, btree.Options{NoLocks: true, Degree: 16})}
}

// count adds a task, or takes it out again.
func (u *usages) count(e *entry, by int32) {
	if !e.listed() {
		return
	}
	k := usageKey{e.inst, e.repo, e.familiar}
	row := u.rows[k]
	if row == nil {
		row = &usageRow{usageKey: k}
		u.rows[k] = row
		u.list.Set(row)
	}
	i, found := slices.BinarySearchFunc(row.days, e.created, func(d usageDay, day int32) int { return cmp.Compare(d.day, day) })
	if !found {
		row.days = slices.Insert(row.days, i, usageDay{day: e.created})
	}
	d := &row.days[i]
	d.tasks += by
	d.runtime += int64(by) * int64(e.runtime)
	switch e.state() {
	case task.Completed:
		d.completed += by
	case task.Failed:
		d.failed += by
	}
	if d.tasks > 0 {
		return
	}
	if row.days = slices.Delete(row.days, i, i+1); len(row.days) == 0 {
		delete(u.rows, k)
		u.list.Delete(row)
	}
}

// between sums the days of a window up.
func (r *usageRow) between(since, until int32) Usage {
	u := Usage{InstallationID: r.inst, Repo: r.repo.Value(), FamiliarID: r.familiar.Value()}
	for _, d := range r.days {
		if d.day >= since && d.day <= until {
			u.Tasks += int(d.tasks)
			u.Completed += int(d.completed)
			u.Failed += int(d.failed)
			u.Runtime += time.Duration(d.runtime) * time.Millisecond
		}
	}
	return u
}

// Usage returns a page of what was done; rows without a task are left out.
func (v *View) Usage(q UsageQuery) (UsagePage, error) {
	from, err := parseUsageCursor(q.Cursor)
	if err != nil {
		return UsagePage{}, err
	}
	pivot := from
	if q.Installation != nil && (pivot == nil || pivot.inst < *q.Installation) {
		pivot = &usageRow{usageKey: usageKey{*q.Installation, intern(""), intern("")}}
	}
	since, until := int32(math.MinInt32), int32(math.MaxInt32)
	if !q.Since.IsZero() {
		since = dayOf(q.Since)
	}
	if !q.Until.IsZero() {
		until = dayOf(q.Until)
	}
	repos := task.NewRepoFilter(q.Repos, q.Repo)
	var page UsagePage
	var last *usageRow
	take := func(r *usageRow) bool {
		if q.Installation != nil && r.inst != *q.Installation {
			return false // it is behind the one
		}
		if from != nil && !byUsage(from, r) || !repos.Has(r.repo.Value()) {
			return true
		}
		u := r.between(since, until)
		if u.Tasks == 0 {
			return true
		}
		if len(page.Rows) == max(q.Limit, 1) {
			page.Next = usageCursor(last)
			return false
		}
		page.Rows = append(page.Rows, u)
		last = r
		return true
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if pivot == nil {
		v.usage.list.Scan(take)
	} else {
		v.usage.list.Ascend(pivot, take)
	}
	return page, nil
}

const secondsPerDay = 24 * 60 * 60

// dayOf counts days in UTC since 1970; what is out of their range is at its end.
func dayOf(t time.Time) int32 {
	s := t.Unix()
	d := s / secondsPerDay
	if s%secondsPerDay < 0 {
		d--
	}
	return int32(min(max(d, math.MinInt32), math.MaxInt32))
}

func usageCursor(r *usageRow) string {
	text := strings.Join([]string{formatInt(r.inst), r.repo.Value(), r.familiar.Value()}, "\x00")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseUsageCursor(s string) (*usageRow, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	parts := strings.Split(string(b), "\x00")
	if err != nil || len(parts) != 3 {
		return nil, ErrCursor
	}
	inst, err := parseInt(parts[0])
	if err != nil {
		return nil, ErrCursor
	}
	return &usageRow{usageKey: usageKey{inst, intern(parts[1]), intern(parts[2])}}, nil
}
