package github

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

func TestParseCommand(t *testing.T) {
	t.Parallel()
	familiars := config().Familiars
	for _, tt := range []struct {
		comment  string
		familiar string // "" when there is no command
		verb     Verb
	}{
		{"@cody review", "cody", VerbReview},
		{"@nova-2 deepen", "nova", VerbDeepen},
		{" \r\n\t@Cody\n FIX: the tests", "cody", VerbFix},
		{"@cody fix\u00a0this", "cody", VerbFix},
		{"@cody retry", "cody", VerbRetry},
		{"@cody Cancel:", "cody", VerbCancel},
		{"@cody STATUS please", "cody", VerbStatus},
		{"@cody frobnicate", "cody", VerbUnknown},
		{"@cody can you look?", "cody", VerbUnknown},
		{"@cody review.", "cody", VerbUnknown},
		{"@cody[bot] review", "cody", VerbUnknown},
		{"@cody, review", "cody", VerbUnknown},
		{"@cody ſtatus", "cody", VerbUnknown},
		{"@cody", "", ""},
		{"@cody \n ", "", ""},
		{"@cody :", "", ""},
		{"@cody: review", "", ""},
		{"thanks @cody review", "", ""},
		{"> @cody review", "", ""},
		{"`@cody review`", "", ""},
		{"cody review", "", ""},
		{"@codyx review", "", ""},
		{"@codyé review", "", ""},
		{"@cody2 review", "", ""},
		{"@cody-2 review", "", ""},
		{"@cody_x review", "", ""},
		{"@cody/team review", "", ""},
		{"@nova review", "", ""},
		{"@ cody review", "", ""},
		{"@", "", ""},
		{"", "", ""},
	} {
		f, verb, ok := ParseCommand(familiars, tt.comment)
		require.Equal(t, tt.familiar != "", ok, "%q", tt.comment)
		if ok {
			require.Equal(t, tt.familiar, f.ID, "%q", tt.comment)
			require.Equal(t, tt.verb, verb, "%q", tt.comment)
		}
	}
	_, _, ok := ParseCommand([]Familiar{{ID: "x"}, {ID: "y", BotUsername: "[bot]"}}, "@ review")
	require.False(t, ok, "a familiar without a login has no mention")
}

// surface is a place for commands, with its payload for a comment.
var surfaces = map[string]struct {
	event string
	pull  bool
	make  func(body string) object
}{
	"issue":          {"issue_comment", false, func(b string) object { return issueCommentEvent(false, b) }},
	"pull":           {"issue_comment", true, func(b string) object { return issueCommentEvent(true, b) }},
	"review":         {"pull_request_review", true, func(b string) object { return submittedEvent(b) }},
	"review comment": {"pull_request_review_comment", true, reviewCommentEvent},
}

func TestVerbTable(t *testing.T) {
	t.Parallel()
	fix := task.Kind{Name: task.FixIssue, IssueNumber: 7, IssueTitle: "It breaks", IssueBody: "Badly."}
	onIssue := map[Verb]task.Kind{
		VerbReview: reply(7, ReplyPullOnly), VerbDeepen: reply(7, ReplyPullOnly), VerbFix: fix, VerbRetry: fix,
		VerbCancel: reply(7, ReplyReviewsOnly), VerbStatus: reply(7, "status"), "dance": reply(7, ReplyVerbs),
	}
	for name, s := range surfaces {
		title, hunk, head := "Mend it", "", headSHA
		if s.event == "issue_comment" {
			title, head = "It breaks", ""
		}
		if s.event == "pull_request_review_comment" {
			hunk = "@@ -1 +1 @@"
		}
		reviewed := func(v Verb) task.Kind {
			return task.Kind{Name: task.ReviewPullRequest, PRNumber: 7, PRTitle: title, Reason: "command:" + string(v)}
		}
		onPull := map[Verb]task.Kind{
			VerbReview: reviewed("review"), VerbDeepen: reviewed("deepen"), VerbRetry: reviewed("retry"),
			VerbFix:    {Name: task.AddressReviewComment, PRNumber: 7, CommentBody: "@nova-2 fix: all of it", DiffHunk: hunk},
			VerbCancel: {Name: task.CancelReviews, PRNumber: 7}, VerbStatus: reply(7, "status"), "dance": reply(7, ReplyVerbs),
		}
		table := onIssue
		if s.pull {
			table = onPull
		}
		for _, verb := range append(slices.Clone(Verbs), "dance") {
			payload := s.make("@nova-2 " + string(verb) + ": all of it")
			spec := requireTask(t, routed(t, config(), s.event, payload))
			require.Equal(t, table[verb], spec.Kind, "%s on %s", verb, name)
			require.Equal(t, "nova", spec.FamiliarID)
			require.Nil(t, spec.Review, "commanded reviews do not supersede at admission")
			require.Equal(t, head, spec.HeadSHA)
			require.True(t, spec.Once)

			gated := verb != VerbStatus && verb != "dance"
			require.Equal(t, gated, spec.Commander == "mona", "%s on %s", verb, name)
			cfg := config()
			cfg.SurfacesReady = false
			d := routed(t, cfg, s.event, payload)
			if gated {
				requireIgnored(t, task.NoGitHubApp, d)
			} else {
				requireTask(t, d)
			}
		}
	}
}

func TestCommandGuards(t *testing.T) {
	t.Parallel()
	for name, s := range surfaces {
		payload := s.make("@cody status")
		part := "comment"
		if s.event == "pull_request_review" {
			part = "review"
		}
		requireTask(t, routed(t, config(), s.event, payload))

		for _, action := range []string{"edited", "deleted", "dismissed"} {
			d := routed(t, config(), s.event, with(payload, object{"action": action}))
			requireIgnored(t, task.UnsupportedAction, d)
		}
		cfg := config()
		cfg.Lanes.Command = false
		requireIgnored(t, task.Scope, routed(t, cfg, s.event, payload))
		requireIgnored(t, task.Unroutable, routed(t, cfg, s.event, s.make("thanks, @cody")))
		for _, author := range []string{"cody[bot]", "NOVA-2[bot]", "ourapp[bot]"} {
			own := with(payload, object{part: commentBy(author, "@cody status"), "sender": nil})
			requireIgnored(t, task.Unroutable, routed(t, config(), s.event, own))
		}
		anonymous := with(payload, object{part: object{"body": "@cody status", "user": nil}})
		requireIgnored(t, task.Unroutable, routed(t, config(), s.event, anonymous))
		for _, body := range []any{nil, "", 7, "nice work"} {
			d := routed(t, config(), s.event, with(payload, object{part: with(commentBy("mona", ""), object{"body": body})}))
			requireIgnored(t, task.Unroutable, d)
			require.Equal(t, 7, d.Number, name)
		}
		other := with(payload, object{part: commentBy("renovate[bot]", "@cody status"), "sender": account("renovate[bot]")})
		requireTask(t, routed(t, config(), s.event, other))
	}
	onIssue := issueCommentEvent(false, "@cody retry")
	onIssue["issue"] = with(issue(), object{"pull_request": nil})
	require.Equal(t, task.FixIssue, requireTask(t, routed(t, config(), "issue_comment", onIssue)).Kind.Name)
}

func TestG39TextStaysInTheKind(t *testing.T) {
	t.Parallel()
	const evil = "$(touch pwned) -- --flag; rm -rf `id`\n"
	for name, s := range surfaces {
		for _, verb := range []string{"fix", "status", "evil$(x)", "review"} {
			payload := s.make("@cody " + verb + " " + evil)
			for _, part := range []string{"issue", "pull_request"} {
				if o, ok := payload[part].(object); ok {
					payload[part] = with(o, object{"title": evil, "body": evil})
				}
			}
			d := routed(t, config(), s.event, payload)
			spec := requireTask(t, d)
			if spec.Kind.Name == task.CommandReply {
				require.NotContains(t, spec.Kind.Body, "evil", "replies are fixed texts")
				require.NotContains(t, spec.Kind.Body, "pwned")
			}
			spec.Kind = task.Kind{Name: spec.Kind.Name}
			require.NotContains(t, strings.Join([]string{
				d.Event, d.Action, d.Repo, string(d.Routing), spec.FamiliarID, spec.Commander, spec.HeadSHA,
				spec.CloneURL, spec.DefaultBranch,
			}, " "), "pwned", name)
		}
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{
		"@cody review", " @CODY\tFix: it", "@cody", "@cody:", "@codyx y", "@nova-2 status", "@cody/x y", "hi @cody fix",
		"@cody\xff review", "@cody ſtatus", "@cody\u2003retry::", "@nova-2-x a", "@cody é",
	} {
		f.Add(s)
	}
	familiars := config().Familiars
	forms := map[string]*regexp.Regexp{
		"cody": regexp.MustCompile(`(?s)^@[cC][oO][dD][yY](?:$|([^\p{L}\p{N}_/-].*))`),
		"nova": regexp.MustCompile(`(?s)^@[nN][oO][vV][aA]-2(?:$|([^\p{L}\p{N}_/-].*))`),
	}
	f.Fuzz(func(t *testing.T, comment string) {
		wantID, wantVerb := "", Verb("")
		for id, re := range forms {
			m := re.FindStringSubmatch(strings.TrimSpace(comment))
			if m == nil {
				continue
			}
			if words := strings.Fields(m[1]); len(words) > 0 && strings.Trim(words[0], ":") != "" {
				wantID, wantVerb = id, VerbUnknown
				verb := strings.TrimRight(words[0], ":")
				if i := slices.IndexFunc(Verbs, func(v Verb) bool { return asciiEqual(string(v), verb) }); i >= 0 {
					wantVerb = Verbs[i]
				}
			}
		}
		fam, verb, ok := ParseCommand(familiars, comment)
		require.Equal(t, wantID != "", ok)
		require.Equal(t, wantVerb, verb)
		if ok {
			require.Equal(t, wantID, fam.ID)
		}
	})
}

func asciiEqual(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
