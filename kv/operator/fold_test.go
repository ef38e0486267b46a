package operator

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	owner = Owner{"invotek", "ann", "c1"}
	want  = Intent{"acme/site", "Title", "Body"}
	issue = Issue{7, "https://github.com/acme/site/issues/7"}
)

const id = RequestID("0b7c1f9e-2a44-4f6e-9d8e-1c2b3a4d5e6f")

// events are one of each kind, in the order of the longest life.
func events() []Event {
	return []Event{
		&Proposed{At: noon, ID: id, Owner: owner, Intent: want, ExpiresAt: noon.Add(ProposalLife)},
		&Approved{At: noon},
		&AttemptStarted{At: noon, AttemptID: "a1", Holder: "boot", LeaseUntil: noon.Add(AttemptLease)},
		&OutcomeUnknown{At: noon, AttemptID: "a1", Reason: "unknown"},
		&Submitted{At: noon, AttemptID: "a1", Issue: issue, Evidence: EvidenceMarker},
		&Delivered{At: noon, OutboxID: "o1"},
	}
}

// in is a task in a state.
func in(t require.TestingT, s State) Task {
	var out Task
	for _, e := range events() {
		if out.State == s {
			break
		}
		var err error
		out, err = out.Fold(e)
		require.NoError(t, err)
	}
	require.Equal(t, s, out.State)
	return out
}

// OT-7, OT-8: of the 42 pairs of a state and an event the policy can make
// seven; the fold refuses the others, a second delivery among them.
func TestOT7FoldMatrix(t *testing.T) {
	t.Parallel()
	legal := map[State]map[Kind]State{
		None:            {KindProposed: StateProposed},
		StateProposed:   {KindApproved: StateApproved},
		StateApproved:   {KindAttemptStarted: StateAttempting},
		StateAttempting: {KindOutcomeUnknown: StateUnknown, KindSubmitted: StateSubmitted},
		StateUnknown:    {KindSubmitted: StateSubmitted},
		StateSubmitted:  {KindDelivered: StateDelivered},
	}
	cells := 0
	for _, s := range States {
		for _, e := range events() {
			cells++
			before := in(t, s)
			after, err := before.Fold(e)
			to, ok := legal[s][e.Kind()]
			if !ok {
				require.ErrorIs(t, err, ErrFold, "%s after %q", e.Kind(), s)
				require.Equal(t, before, after, "a refused event changes nothing")
				continue
			}
			require.NoError(t, err, "%s after %q", e.Kind(), s)
			require.Equal(t, to, after.State)
			require.Equal(t, before.Revision+1, after.Revision, "OT-6")
			require.Equal(t, before.Owner == Owner{}, s == None)
			if s != None {
				require.Equal(t, owner, after.Owner, "OT-13")
			}
		}
	}
	require.Equal(t, 42, cells)
	require.Len(t, events(), MaxEvents, "OT-9")
}

// OT-52: every type of the package that is an event can be read back, and
// is in the matrix; a new one cannot be forgotten.
func TestOT52EveryEventIsFolded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	types := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.FuncDecl); ok && d.Name.Name == "fold" && d.Recv != nil {
				types[d.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name] = true
			}
			return true
		})
	}
	require.Len(t, types, len(kinds))
	require.Len(t, types, len(events()))
	for i, e := range events() {
		require.True(t, types[reflect.TypeOf(e).Elem().Name()])
		b, err := Encode(e, i+1)
		require.NoError(t, err)
		back, rev, err := Decode(b)
		require.NoError(t, err)
		require.Equal(t, e, back)
		require.Equal(t, i+1, rev)
		require.Equal(t, noon, back.when())
	}
}

func TestForeignEventsAreNotDecoded(t *testing.T) {
	t.Parallel()
	for _, b := range []string{
		``, `null`, `[]`, `{}`, `{"v":1,"kind":"of_the_future","rev":1,"data":{}}`, `{"v":2,"kind":"approved","rev":1,"data":{}}`,
		`{"v":1,"kind":"approved","rev":1,"data":[]}`, `{"v":1,"kind":"","rev":1,"data":{}}`, `garbage`,
	} {
		_, _, err := Decode([]byte(b))
		require.ErrorIs(t, err, ErrForeign, b)
	}
}

// The wire form of an event, as the nats CLI shows it.
func TestEventWire(t *testing.T) {
	t.Parallel()
	b, err := Encode(events()[0], 1)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":1,"kind":"proposed","rev":1,"data":{"at":"2026-03-01T12:00:00.123456Z","request_id":"`+string(id)+`",
		"owner":{"tenant":"invotek","operator":"ann","conversation":"c1"},"intent":{"repo":"acme/site","title":"Title","body":"Body"},
		"expires_at":"2026-03-02T12:00:00.123456Z"}}`, string(b))
	require.True(t, json.Valid(b))
}

func TestOT2OT24IDsAndReservedNames(t *testing.T) {
	t.Parallel()
	got, err := ParseRequestID(string(id))
	require.NoError(t, err)
	require.Equal(t, "cockpit-task:"+string(id), got.Stream())
	for _, bad := range []string{
		"", strings.ToUpper(string(id)), "{" + string(id) + "}", string(id) + " ", string(id)[1:], strings.ReplaceAll(string(id), "-", ""),
		"urn:uuid:" + string(id), string(id) + "0", "0b7c1f9e-2a44-4f6e-9d8e-1c2b3a4d5e6g",
	} {
		_, err := ParseRequestID(bad)
		require.ErrorIs(t, err, ErrRequestID, bad)
	}
	for name, reserved := range map[string]bool{
		got.Stream(): true, "COCKPIT-TASK:x": true, "Cockpit-Task:": true, " cockpit-task:x": true, "cockpit-task": false, "cockpit-tasks:x": false,
		"operator.x": true, "OPERATOR.x.y": true, "operator": true, "operators": false, "agent-1": false, "": false, "x.cockpit-task:y": false,
	} {
		require.Equal(t, reserved, Reserved(name), name)
	}
}

func TestOT29OT30OT31OT32RepoTenant(t *testing.T) {
	t.Parallel()
	for answer, wantID := range map[string]string{"invotek": "invotek", " Acme ": "acme", "a1": "a1"} {
		got, err := RepoTenant(answer, true, "other", nil)
		require.NoError(t, err)
		require.Equal(t, wantID, got)
	}
	got, err := RepoTenant("", false, "invotek", nil)
	require.NoError(t, err)
	require.Equal(t, "invotek", got, "OT-30: an unmapped repository is tenant 0's")
	for _, bad := range []string{"", " ", "a", "1a", "a-b", "a_b", "ümlaut", "pgdata", "kubesystem", "PG1", "tenantthatismuchtoolong", "word", "a\n"} {
		got, err := RepoTenant(bad, true, "invotek", []string{"word"})
		if bad == "a\n" { // trimmed, then too short
			require.ErrorIs(t, err, ErrTenant)
			continue
		}
		require.ErrorIs(t, err, ErrTenant, "%q gave %q", bad, got)
		require.Empty(t, got)
	}
}
