package githubapp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/kv/redact"
)

// TestPlantedCommentsAreIgnored: only one that our bot wrote, with the mark
// of this thread, on its first line, is ours.
func TestPlantedCommentsAreIgnored(t *testing.T) {
	t.Parallel()
	real := func(k *kit, th Thread) string { return marker(k.client.markers[0], th) + "\nplanted" }
	for name, plant := range map[string]func(k *kit) githubtest.Comment{
		"a person copies the marker": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: "mallory", Body: real(k, k.thread(7))}
		},
		"a person with the bot's name in it": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: "belay-test", Body: real(k, k.thread(7))}
		},
		"a person, by means of our App": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: "mallory", ViaApp: k.AppID(), Body: real(k, k.thread(7))}
		},
		"another bot": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: "other[bot]", ViaApp: 1, Body: real(k, k.thread(7))}
		},
		"another bot that says of no App": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: "other[bot]", Body: real(k, k.thread(7))}
		},
		"our bot, another thread's marker": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: k.Login(), ViaApp: k.AppID(), Body: real(k, k.thread(8))}
		},
		"our bot, another familiar's marker": func(k *kit) githubtest.Comment {
			th := k.thread(7)
			th.Familiar = "sam"
			return githubtest.Comment{Login: k.Login(), ViaApp: k.AppID(), Body: real(k, th)}
		},
		"our bot, the marker of another key": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: k.Login(), ViaApp: k.AppID(), Body: marker([]byte("guess"), k.thread(7)) + "\nplanted"}
		},
		"our bot, quoting the marker below": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: k.Login(), ViaApp: k.AppID(), Body: "> hello\n" + real(k, k.thread(7))}
		},
		"our bot, no marker": func(k *kit) githubtest.Comment {
			return githubtest.Comment{Login: k.Login(), ViaApp: k.AppID(), Body: "planted"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			c := plant(k)
			c.Number = 7
			planted := k.AddComment(100, c)
			got, err := k.client.EnsureComment(t.Context(), k.thread(7), "hello")
			require.NoError(t, err)
			require.NotEqual(t, planted, got.ID)
			all := k.Comments(100, 7)
			require.Len(t, all, 2)
			require.Equal(t, []string{c.Body}, all[0].Edits, "the planted one is left alone")
		})
	}
}

// TestTheCommentIsFoundAmongMany and edited in place, whatever case the bot's
// login has.
func TestTheCommentIsFoundAmongMany(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(o *githubtest.Options, _ *Options) { o.Slug = "Belay-Test" })
	for i := range 250 {
		k.AddComment(100, githubtest.Comment{Number: 7, Login: bob, Body: fmt.Sprint(i)})
	}
	first, err := k.client.EnsureComment(t.Context(), k.thread(7), "one")
	require.NoError(t, err)
	k.AddComment(100, githubtest.Comment{Number: 7, Login: bob, Body: "last"})
	second, err := k.client.EnsureComment(t.Context(), k.thread(7), "two")
	require.NoError(t, err)
	require.Equal(t, first.ID, second.ID)
	require.Equal(t, 1, k.Count(githubtest.OpCreateComment))
	_, err = k.client.EnsureComment(t.Context(), k.thread(7), "two")
	require.NoError(t, err)
	require.Equal(t, 1, k.Count(githubtest.OpEditComment), "what it says already costs no edit")
	require.Equal(t, 1, k.Requests(githubtest.OpApp), "the login is asked for once")
}

// TestMarkerSecretsCanBeRotated: the first signs, all are found.
func TestMarkerSecretsCanBeRotated(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	with := func(secrets ...redact.Secret) *Client {
		return k.another(t, Options{
			AppID: k.AppID(), PrivateKey: k.PrivateKey(), APIURL: k.URL(), Now: k.clock.Now, Sleep: k.clock.Sleep, MarkerSecrets: secrets,
		})
	}
	a, err := with("old").EnsureComment(t.Context(), k.thread(7), "one")
	require.NoError(t, err)
	b, err := with("new", "old").EnsureComment(t.Context(), k.thread(7), "two")
	require.NoError(t, err)
	c, err := with("new").EnsureComment(t.Context(), k.thread(7), "three")
	require.NoError(t, err)
	require.Equal(t, a.ID, b.ID)
	require.Equal(t, a.ID, c.ID)
	d, err := with("other").EnsureComment(t.Context(), k.thread(7), "four")
	require.NoError(t, err)
	require.NotEqual(t, a.ID, d.ID, "control")
}

// TestBodiesAreCutToGitHubsLimit, and the marker survives it.
func TestBodiesAreCutToGitHubsLimit(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 50000), strings.Repeat("日", 70000)} {
		got, err := k.client.EnsureComment(t.Context(), k.thread(7), text)
		require.NoError(t, err)
		require.LessOrEqual(t, len(got.Body), maxBody)
		require.Contains(t, got.Body, "[cut by belay]")
		run, err := k.client.EnsureCheckRun(t.Context(), k.repo, k.check("t1"))
		require.NoError(t, err)
		_, err = k.client.UpdateCheckRun(t.Context(), k.repo, run, "n", CheckUpdate{Status: StatusInProgress, Title: text, Summary: text})
		require.NoError(t, err)
	}
	require.Len(t, k.Comments(100, 7), 1)
}

// TestEditCommentMakesNone where there is none.
func TestEditCommentMakesNone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	got, err := k.client.EditComment(t.Context(), k.thread(7), "x")
	require.NoError(t, err)
	require.Nil(t, got)
	require.Empty(t, k.Mutations())
	_, err = k.client.EnsureComment(t.Context(), k.thread(7), "x")
	require.NoError(t, err)
	got, err = k.client.EditComment(t.Context(), k.thread(7), "y")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(got.Body, "\ny"))
}
