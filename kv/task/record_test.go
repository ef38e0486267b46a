package task_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv/task"
)

func TestDT29NewRecord(t *testing.T) {
	t.Parallel()
	r := queued(t)
	b, err := json.Marshal(&r)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"id":"id","source":"default","delivery_id":"g1","delivery_seq":3,"installation_id":7,"repo_id":11,
		"repo":"acme/api","familiar_id":"fam","kind":{"kind":"review_pull_request","pr_number":5,"pr_title":"Fix","reason":"opened"},
		"state":"queued","supersede_key":"acme/api#5","title":"Review PR #5: Fix","number":5,"head_sha":"sha","attempts":0,
		"created_at":"2026-03-01T12:00:00.123456Z","updated_at":"2026-03-01T12:00:00.123456Z"}`, string(b))
	d := reviewDelivery()
	d.Task = nil
	_, err = task.New(d, 1, task.At(noon))
	require.Error(t, err)
	d = reviewDelivery()
	d.Task.Kind = task.Kind{Name: task.FixIssue, IssueNumber: 5}
	fix, err := task.New(d, 1, task.At(noon))
	require.NoError(t, err)
	require.Empty(t, fix.SupersedeKey, "DT-33: only reviews have one")
	_, ok := fix.Key()
	require.False(t, ok)
	k, ok := r.Key()
	require.True(t, ok)
	require.Equal(t, task.SupersedeKey{InstallationID: 7, RepoID: 11, Number: 5, FamiliarID: "fam"}, k)
	require.Equal(t, "7/11#5/fam", k.String())
}

// DT-20, DT-107: a record comes back byte for byte, a newer one is refused.
func TestDT20Decode(t *testing.T) {
	t.Parallel()
	for _, s := range task.States {
		r := in(t, s)
		b, err := json.Marshal(&r)
		require.NoError(t, err)
		back, err := task.DecodeRecord(b)
		require.NoError(t, err)
		require.Equal(t, r, back)
		again, err := json.Marshal(&back)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	}
	for in, want := range map[string]error{
		`{"v":2,"id":"x","state":"queued","kind":{"kind":"fix_issue"}}`:     task.ErrNewer,
		`{"v":2,"id":7,"state":{"deeply":"other"}}`:                         task.ErrNewer,
		`{"v":2,"kind":{"kind":"of_the_future"}}`:                           task.ErrNewer,
		`{"v":1,"id":"x","state":"queued","kind":{"kind":"of_the_future"}}`: task.ErrCorrupt,
		`{"v":1,"id":"x","state":"paused","kind":{"kind":"fix_issue"}}`:     task.ErrCorrupt,
		`{"v":1,"id":"","state":"queued","kind":{"kind":"fix_issue"}}`:      task.ErrCorrupt,
		`{"v":0,"id":"x","state":"queued","kind":{"kind":"fix_issue"}}`:     task.ErrCorrupt,
		`{"id":"x","state":"queued","kind":{"kind":"fix_issue"}}`:           task.ErrCorrupt,
		`{}`: task.ErrCorrupt, `null`: task.ErrCorrupt, `[]`: task.ErrCorrupt, ``: task.ErrCorrupt, `garbage`: task.ErrCorrupt,
		`{"v":1,"id":"x","state":"queued","kind":{"kind":"fix_issue"}`: task.ErrCorrupt,
	} {
		_, err := task.DecodeRecord([]byte(in))
		require.ErrorIs(t, err, want, in)
	}
	_, err := task.DecodeRecord([]byte(`{"v":1,"id":"x","state":"queued","kind":{"kind":"fix_issue"},"unknown":1}`))
	require.NoError(t, err)
}

func TestCutAtRuneBorders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s") + strings.Repeat(rapid.SampledFrom([]string{"a", "ä", "😊", "\u2028"}).Draw(t, "rune"), rapid.IntRange(0, 300).Draw(t, "n"))
		limit := rapid.IntRange(0, 400).Draw(t, "limit")
		got := task.Cut(s, limit)
		if len(s) <= limit {
			require.Equal(t, s, got)
			return
		}
		require.True(t, utf8.ValidString(got))
		kept, noted := strings.CutSuffix(got, "\n… [cut by belay]")
		require.True(t, noted)
		require.True(t, strings.HasPrefix(s, kept))
		require.LessOrEqual(t, len(got), max(limit, len("\n… [cut by belay]")))
		require.GreaterOrEqual(t, len(got), limit-3, "no more is cut than needs be")
	})
}

func TestDT27Routing(t *testing.T) {
	t.Parallel()
	id, ok := task.ToTask("x").Task()
	require.True(t, ok)
	require.Equal(t, task.ID("x"), id)
	_, ok = task.ToTask("x").Reason()
	require.False(t, ok)
	want := strings.Fields(`ping foreign_app foreign_installation self unsupported_event unsupported_action ref_deleted closed
		no_installation installation_deleted too_old scope no_github_app quota_exceeded unroutable`)
	require.Len(t, task.Reasons, len(want))
	for i, r := range task.Reasons {
		require.Equal(t, task.Reason(want[i]), r)
		require.Equal(t, task.Routing("ignored:"+want[i]), task.Ignored(r))
		got, ok := task.Ignored(r).Reason()
		require.True(t, ok)
		require.Equal(t, r, got)
	}
	require.Equal(t, "g1", task.MessageID("default", "g1"))
	require.Equal(t, "ghes:g1", task.MessageID("ghes", "g1"))
}

// DT-25: the delivery's wire form, as in the log.
func TestDT25DeliveryWire(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(reviewDelivery())
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"source":"default","delivery_id":"g1","hook_id":"1","event":"pull_request","action":"opened",
		"installation_id":7,"repo_id":11,"repo":"acme/api","number":5,"payload_hash":"abc","routing":"task:id",
		"received_at":"2026-03-01T12:00:00.123456Z","task":{"id":"id","familiar_id":"fam","head_sha":"sha",
		"kind":{"kind":"review_pull_request","pr_number":5,"pr_title":"Fix","reason":"opened"}}}`, string(b))
	var d task.Delivery
	require.NoError(t, json.Unmarshal(b, &d))
	require.Equal(t, reviewDelivery(), d)
	require.False(t, slices.Contains(task.Reasons, ""))
}
