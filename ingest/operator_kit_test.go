package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
)

const (
	opSecret = "an-operator-secret-of-some-length"
	opRepo   = "acme/site"
	opID     = operator.RequestID("0b8f6a52-6f0e-4d8e-9a3e-0c6a4d1f2e3b")
)

var opAnn = operator.Owner{Tenant: "invotek", Operator: "ann", Conversation: "c1"}

// deskFake stands in for every port of the signed routes. Its requests live by
// the rules of the domain; it remembers what it was asked.
type deskFake struct {
	now      func() time.Time
	requests map[operator.RequestID]*operator.Task
	calls    []string
	err      error         // of every call of the store
	code     operator.Code // answered instead, where set

	tenant    string // of the repository; "" cannot be told
	tenantErr error
	used      map[string]bool
	nonceErr  error
	pulls     map[int]Pull
	pullErr   error
	releases  map[string]kv.Release
	relErr    error
	woken     []string
}

func (f *deskFake) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *deskFake) Propose(_ context.Context, o operator.Owner, id operator.RequestID, in operator.Intent) (kv.OperatorResult, error) {
	f.note("propose %s %v %v", id, o, in)
	if f.err != nil || f.code != "" {
		return kv.OperatorResult{Code: f.code}, f.err
	}
	if t := f.requests[id]; t != nil {
		code := t.Proposable(o, in)
		if code != operator.Existing {
			t = nil
		}
		return kv.OperatorResult{Code: code, Task: t}, nil
	}
	t, err := operator.Task{}.Fold(operator.Propose(id, o, in, f.now()).Append)
	f.requests[id] = &t
	return kv.OperatorResult{Code: operator.Committed, Task: &t}, err
}

func (f *deskFake) Confirm(_ context.Context, o operator.Owner, id operator.RequestID, rev int) (kv.OperatorResult, error) {
	f.note("confirm %s %v %d", id, o, rev)
	if f.err != nil || f.code != "" {
		return kv.OperatorResult{Code: f.code}, f.err
	}
	t := f.requests[id]
	d := t.Confirm(o, rev, f.now())
	if d.Append == nil {
		if d.Code == operator.NotFound {
			t = nil
		}
		return kv.OperatorResult{Code: d.Code, Task: t}, nil
	}
	n, err := t.Fold(d.Append)
	f.requests[id] = &n
	return kv.OperatorResult{Code: operator.Committed, Task: &n}, err
}

func (f *deskFake) Read(_ context.Context, o operator.Owner, id operator.RequestID) (*operator.Task, error) {
	t := f.requests[id]
	if f.err != nil || t == nil || !t.Owner.Is(o) {
		return nil, f.err
	}
	return t, nil
}

func (f *deskFake) Tenant(_ context.Context, id operator.RequestID) (string, bool, error) {
	if t := f.requests[id]; t != nil {
		return t.Owner.Tenant, true, f.tenantErr
	}
	return "", false, f.tenantErr
}

func (f *deskFake) RepoTenant(_ context.Context, repo string) (string, error) {
	if repo != opRepo || f.tenant == "" {
		return "half-" + f.tenant, errors.New("not known")
	}
	return f.tenant, nil
}

func (f *deskFake) Use(_ context.Context, key, nonce string) error {
	if f.nonceErr != nil {
		return f.nonceErr
	}
	if f.used[key+" "+nonce] {
		return fmt.Errorf("create: %w", kv.ErrExists)
	}
	f.used[key+" "+nonce] = true
	return nil
}

func (f *deskFake) Pull(_ context.Context, repo string, number int) (Pull, error) {
	p, ok := f.pulls[number]
	if f.pullErr != nil || !ok || repo != opRepo {
		return Pull{}, errors.Join(kv.ErrNotFound, f.pullErr)
	}
	return p, nil
}

func (f *deskFake) Approve(_ context.Context, repoID int64, number int, head string, owner operator.Owner, at time.Time) (kv.Release, bool, error) {
	if f.relErr != nil {
		return kv.Release{}, false, f.relErr
	}
	key := fmt.Sprint(repoID, "#", number)
	if r, ok := f.releases[key]; ok && r.Head == head {
		return r, true, nil
	}
	r := kv.Release{V: 1, Head: head, Owner: owner}
	f.releases[key] = r
	_ = at
	return r, false, nil
}

func (f *deskFake) Wake(_ context.Context, tenant string, id operator.RequestID) error {
	f.woken = append(f.woken, tenant+" "+string(id))
	return nil
}

// advance folds events into a request, as the consumer does.
func (f *deskFake) advance(t testing.TB, to operator.State) {
	t.Helper()
	r := *f.requests[opID]
	for r.State != to {
		var d operator.Decision
		switch r.State {
		case operator.StateProposed:
			d = r.Confirm(r.Owner, r.Revision, f.now())
		case operator.StateApproved:
			d = r.Begin(r.Owner, r.Revision, "a1", "boot", f.now())
		case operator.StateAttempting:
			d = r.MarkUnknown(r.Owner, r.Revision, "a1", "boot", "unknown", f.now())
		case operator.StateUnknown:
			d = r.Reconcile(r.Owner, r.Revision, operator.Evidence{AttemptID: "a1", Issue: operator.Issue{Number: 7, URL: "https://github.test/7"}}, f.now())
		case operator.StateSubmitted:
			d = r.MarkDelivered(r.Owner, r.Revision, "o1", f.now())
		}
		require.NotNil(t, d.Append)
		n, err := r.Fold(d.Append)
		require.NoError(t, err)
		r = n
	}
	f.requests[opID] = &r
}

func deskDoor(t testing.TB, change ...func(*Options)) (*door, *deskFake) {
	t.Helper()
	f := &deskFake{
		now: func() time.Time { return testTime.Time }, requests: map[operator.RequestID]*operator.Task{}, tenant: "invotek",
		used: map[string]bool{}, pulls: map[int]Pull{8: {RepoID: 99, Issue: 7}}, releases: map[string]kv.Release{},
	}
	d := newDoor(t, append([]func(*Options){func(o *Options) {
		o.Now = f.now
		o.Operator = &Operator{
			Keys: signers(OperatorKey{ID: "worker", Secret: []byte(opSecret)}, OperatorKey{ID: "other", Secret: []byte("another-secret-of-some-length")}),
			Repo: opRepo, Store: f, Tenancy: f, Nonces: f, Releases: f, Pulls: f, Waker: f,
		}
	}}, change...)...)
	return d, f
}

// op is a signed request; a header set to "" is left out.
type op struct {
	method, path, body string
	secret             string
	header             map[string]string
	after              func(r *http.Request) // changes what was signed
}

// signedBy is written from the words of REQUIREMENTS, apart from the code.
func signedBy(secret, method, uri, stamp, nonce, operator, conversation, body string) string {
	text := method + "\n" + uri + "\n" + stamp + "\n" + nonce + "\n" + operator + "\n" + conversation + "\n" +
		fmt.Sprintf("%x", sha256.Sum256([]byte(body))) + "\n"
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(text))
	return "v1=" + fmt.Sprintf("%x", mac.Sum(nil))
}

func (d *door) op(o op) answered {
	d.t.Helper()
	if o.method == "" {
		o.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(d.t.Context(), o.method, d.base+"/api/operator"+o.path, strings.NewReader(o.body))
	require.NoError(d.t, err)
	nonce := fmt.Sprintf("a-nonce-of-the-test-%p-%d", d, len(d.audit.entries)) + strconv.FormatInt(time.Now().UnixNano(), 36)
	h := map[string]string{
		"Content-Type": "application/json", "X-Belay-Key": "worker", "X-Belay-Timestamp": strconv.FormatInt(testTime.Unix(), 10),
		"X-Belay-Nonce": nonce, "X-Belay-Operator": "ann", "X-Belay-Conversation": "c1",
	}
	for k, v := range o.header {
		h[k] = v
	}
	secret := opSecret
	if o.secret != "" {
		secret = o.secret
	}
	if _, given := h["X-Belay-Signature"]; !given {
		h["X-Belay-Signature"] = signedBy(secret, o.method, req.URL.RequestURI(), h["X-Belay-Timestamp"], h["X-Belay-Nonce"], h["X-Belay-Operator"], h["X-Belay-Conversation"], o.body)
	}
	for k, v := range h {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if o.after != nil {
		o.after(req)
	}
	return d.do(req)
}

func proposal(more string) string {
	return `{"requestId":"` + string(opID) + `","title":"Fix the door","body":"It squeaks."` + more + `}`
}

// signers are the keys of a configuration.
func signers(keys ...OperatorKey) func() []OperatorKey {
	return func() []OperatorKey { return keys }
}
