package kv_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natstest"
	"github.com/belay-run/belay/kv/task"
)

var validKey = regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`)

// token draws text in which the bytes that matter are frequent.
var token = rapid.OneOf(
	rapid.StringOfN(rapid.RuneFrom([]rune("aB0-_=.*>/ ä\x00")), 0, 6, -1),
	rapid.String(), rapid.Just(""), rapid.Just("="), rapid.Just("=2E"),
)

// X12: one key builder, and no two lists of tokens give one key.
func TestX12KeyIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(token, 1, 4)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		require.Equal(t, slices.Equal(a, b), kv.Key(a...) == kv.Key(b...))
		k := kv.Key(a...)
		require.Regexp(t, validKey, k)
		require.NotContains(t, k, "..")
		require.False(t, strings.HasPrefix(k, ".") || strings.HasSuffix(k, "."))
		require.Equal(t, len(a), 1+strings.Count(k, "."))
		back, err := tokens(k)
		require.NoError(t, err)
		require.Equal(t, a, back)
	})
}

// X12: no two supersede keys share a pointer, whatever rules, branches and
// familiars are called.
func TestX12SupersedeKeyIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) task.SupersedeKey {
			n := rapid.IntRange(0, 2)
			k := task.SupersedeKey{
				InstallationID: int64(n.Draw(t, "installation")), RepoID: int64(n.Draw(t, "repo")),
				Number: n.Draw(t, "number"), FamiliarID: token.Draw(t, "familiar"),
			}
			if name := token.Draw(t, "rule"); name != "" {
				k.Rule, k.Group = name, token.Draw(t, "group")
			}
			return k
		})
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		require.Equal(t, a == b, kv.SupersedeKey(a) == kv.SupersedeKey(b))
	})
}

// tokens is the inverse of kv.Key: that there is one makes Key injective.
func tokens(key string) ([]string, error) {
	parts := strings.Split(key, ".")
	for i, p := range parts {
		t, err := url.PathUnescape(strings.ReplaceAll(strings.TrimSuffix(p, "="), "=", "%"))
		if err != nil {
			return nil, err
		}
		parts[i] = t
	}
	return parts, nil
}

// G29: names that the server refuses or splits are made into one valid token.
func TestG29NamesAreOneValidToken(t *testing.T) {
	t.Parallel()
	env := natstest.New(t)
	bucket, err := env.JS.KeyValue(t.Context(), kv.BucketState)
	require.NoError(t, err)
	for _, name := range []string{
		"my.repo", "..x", ".github", "dependabot[bot]", "feat/naïve@x", ".lead", "trail.", "a/b@c", "repo/naïve", "*", ">", "", " ", "a\nb",
	} {
		key := kv.Key("lease", name)
		require.Equal(t, 1, strings.Count(key, "."), name)
		_, err := bucket.Create(t.Context(), key, []byte(name))
		require.NoError(t, err, name)
		e, err := bucket.Get(t.Context(), key)
		require.NoError(t, err, name)
		require.Equal(t, name, string(e.Value()))
	}
}

// DESIGN §4: the keys and subjects as people meet them in the nats CLI.
func TestKeysAndSubjects(t *testing.T) {
	t.Parallel()
	require.Equal(t, "task.7.0b0c", kv.TaskKey(7, "0b0c"))
	require.Equal(t, "supersede.7.11.5.fam=2Eone", kv.SupersedeKey(task.SupersedeKey{InstallationID: 7, RepoID: 11, Number: 5, FamiliarID: "fam.one"}))
	require.Equal(t, "supersede.7.11.0.fam.deploy.=40main", kv.SupersedeKey(task.SupersedeKey{
		InstallationID: 7, RepoID: 11, FamiliarID: "fam", Rule: "deploy", Group: task.BranchGroup("main"),
	}))
	require.Equal(t, "worker.b0", kv.WorkerKey("b0"))
	require.Equal(t, "seen.default.abc", kv.SeenKey("default", "abc"))
	require.Equal(t, "cursor.redeliver.default", kv.RedeliveryCursorKey("default"))
	require.Equal(t, "redelivery.default.g-1", kv.RedeliveryKey("default", "g-1"))
	require.Equal(t, "installation.7", kv.InstallationKey(7))
	require.Equal(t, "control.pause", kv.ControlPause)
	require.Equal(t, "nonce.worker.abc", kv.NonceKey("worker", "abc"))
	require.Equal(t, "release.11.5", kv.ReleaseKey(11, 5))
	require.Equal(t, "event.run=3A1", kv.EventSubject("run:1"))
	d := delivery("g1")
	require.Equal(t, "webhook.7.11.task.review_pull_request", kv.Subject(&d))
	d = ignored("g1", task.Ping)
	require.Equal(t, "webhook.0.0.ignored.ping", kv.Subject(&d))
}

// DT-5: the same delivery is the same task on every process, for ever; this id
// was computed by another implementation of UUIDv5.
func TestTaskIDIsStable(t *testing.T) {
	t.Parallel()
	require.Equal(t, task.ID("d3e1f3da-82eb-5108-b126-851f2b1e7181"), kv.TaskID("default", "g1"))
	require.NotEqual(t, kv.TaskID("default", "g1"), kv.TaskID("ghes", "g1"))
	require.NotEqual(t, kv.TaskID("default", "g1"), kv.TaskID("default", "2:g1"))
}
