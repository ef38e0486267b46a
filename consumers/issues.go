package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

const (
	// issuesParallel is how many requests are looked at at once.
	issuesParallel = 16
	// createTimeout bounds the one request that creates an issue, with its
	// wait for the installation's turn; it is well below an attempt's lease.
	createTimeout = 2 * time.Minute
	// searchFirst and searchLongest are between the looks for an issue whose
	// attempt's outcome is unknown, searchFor is how long they go on.
	searchFirst   = 5 * time.Second
	searchLongest = 10 * time.Minute
	searchFor     = 24 * time.Hour
)

// IssuesOptions are what an Issues is made of. JS, Events, GitHub, Outbox,
// Repo, Boot, Restore, Logger, Now and Registerer are needed.
type IssuesOptions struct {
	JS     jetstream.JetStream
	Events *kv.EventStore
	GitHub *githubapp.Client
	Outbox *kv.OutboxStore
	// Repo is the one repository that issues are created in, owner/name.
	Repo string
	// Labels are put on each issue; they can make it work at once.
	Labels []string
	// Callback is the channel on which an operator is told of the issue, and
	// To what people see of it; "" tells nobody.
	Callback, To string
	// Keep is how long the outbox keeps what was sent: what was submitted
	// longer ago is not told any more, since it may have been.
	Keep time.Duration
	Boot task.BootID
	// Restore makes a durable again that somebody deleted.
	Restore func(ctx context.Context, stream, consumer string) error
	// Audit records what people must be able to find later; may be nil.
	Audit      func(kind, repo, detail string)
	Logger     *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer

	// SweepEvery is the time between two looks for requests that no message
	// woke; 0 is a minute.
	SweepEvery time.Duration
	// SearchFirst and SearchLongest override the pauses between the looks for
	// an issue; for tests.
	SearchFirst, SearchLongest time.Duration
	// Hooks hold the steps of an attempt in tests; nil in production.
	Hooks *IssueHooks
}

// IssueHooks are called at the steps of an attempt.
type IssueHooks struct {
	BeforeBegin func(id operator.RequestID)
	Begun       func(id operator.RequestID) // the license is there, nothing was sent
	Posted      func(id operator.RequestID) // the request was sent, nothing is recorded
	Recorded    func(id operator.RequestID)
	Searched    func() // a look for issues of unknown attempts is over
}

func (h *IssueHooks) call(f func(*IssueHooks) func(operator.RequestID), id operator.RequestID) {
	if h == nil {
		return
	}
	if hook := f(h); hook != nil {
		hook(id)
	}
}

// requestKey names a request.
type requestKey struct {
	tenant string
	id     operator.RequestID
}

// sight is what was last read of a request.
type sight struct {
	events int
	state  operator.State
}

// Issues brings approved operator requests to their one issue, and tells the
// operator. See the package comment for its protocol.
type Issues struct {
	o      IssuesOptions
	log    *slog.Logger
	met    *issuesMetrics
	follow *follower
	slots  chan struct{}
	kick   chan struct{} // the searcher looks again

	mu     sync.Mutex
	begun  bool
	over   bool
	busy   map[requestKey]bool // looked at now; true: once more after that
	seen   map[requestKey]sight
	held   map[requestKey]bool // whose attempt's answer was uncertain
	urgent map[requestKey]bool
	search map[requestKey]*search

	pull, work         context.Context // pull ends first: nothing new is begun
	stopPull, stopWork context.CancelFunc
	wg                 sync.WaitGroup
}

// NewIssues makes it; Start starts it.
func NewIssues(o IssuesOptions) (*Issues, error) {
	if o.JS == nil || o.Events == nil || o.GitHub == nil || o.Outbox == nil || o.Repo == "" || o.Boot == "" {
		return nil, errors.New("make issues: a store, connection, App, repository or boot id is missing")
	}
	o.SweepEvery = orElse(o.SweepEvery, time.Minute)
	o.SearchFirst, o.SearchLongest = orElse(o.SearchFirst, searchFirst), orElse(o.SearchLongest, searchLongest)
	if o.Audit == nil {
		o.Audit = func(string, string, string) {}
	}
	i := &Issues{
		o: o, log: o.Logger, met: newIssuesMetrics(o.Registerer), slots: make(chan struct{}, issuesParallel), kick: make(chan struct{}, 1),
		busy: map[requestKey]bool{}, seen: map[requestKey]sight{}, held: map[requestKey]bool{}, urgent: map[requestKey]bool{},
		search: map[requestKey]*search{},
	}
	i.follow = (&follower{
		js: o.JS, stream: kv.StreamOperator, consumer: kv.ConsumerIssues, parallel: issuesParallel,
		restore: o.Restore, handle: i.handle, log: o.Logger, now: o.Now,
	}).register(o.Registerer)
	i.pull, i.stopPull = context.WithCancel(context.Background())
	i.work, i.stopWork = context.WithCancel(context.Background())
	return i, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Start begins to work; it does not block. It starts once.
func (i *Issues) Start() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.begun || i.over {
		return
	}
	i.begun = true
	i.follow.sign()
	i.wg.Go(func() { i.follow.run(i.pull) })
	i.wg.Go(i.sweepLoop)
	i.wg.Go(i.searchLoop)
}

// Stop begins no attempt any more and waits for those that are running until
// ctx ends; then they are given up, and their outcome is unknown.
func (i *Issues) Stop(ctx context.Context) error {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
	i.stopPull()
	defer i.stopWork()
	done := make(chan struct{})
	go func() { defer close(done); i.wg.Wait() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		i.stopWork()
		<-done
		return fmt.Errorf("drain issues: %w", ctx.Err())
	}
}

// LastSign is when the pull last proved to be alive.
func (i *Issues) LastSign() time.Time { return i.follow.lastSign() }

// Wake looks at a request now, because a person asked for it: an attempt
// whose answer was uncertain may be begun again, and an issue whose attempt's
// outcome is unknown is looked for at once. It does not block.
func (i *Issues) Wake(tenant string, id operator.RequestID) {
	key := requestKey{tenant, id}
	i.mu.Lock()
	delete(i.held, key)
	i.urgent[key] = true
	i.mu.Unlock()
	i.spawn(func() { _ = i.run(key) })
}

// spawn does something beside, in a free slot, unless all is over.
func (i *Issues) spawn(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return
	}
	i.wg.Go(func() {
		select {
		case i.slots <- struct{}{}:
			defer func() { <-i.slots }()
			f()
		case <-i.pull.Done():
		}
	})
}

// handle takes a message as what it is: a sign that a request changed.
func (i *Issues) handle(msg jetstream.Msg) {
	if i.pull.Err() != nil { // nothing is begun any more: another process takes it
		_ = msg.Nak()
		return
	}
	tenant, id, ok := kv.ParseOperatorSubject(msg.Subject())
	if !ok {
		i.met.messages.WithLabelValues("poison").Inc()
		i.log.Error("message of no request is acknowledged", "class", "poison", "subject", msg.Subject())
		_ = msg.Ack()
		return
	}
	if e, _, err := operator.Decode(msg.Data()); err == nil && !wakes(e.Kind()) {
		i.met.messages.WithLabelValues("skipped").Inc()
		_ = msg.Ack()
		return
	}
	if err := i.run(requestKey{tenant, id}); err != nil {
		i.met.messages.WithLabelValues("failed").Inc()
		_ = msg.NakWithDelay(time.Second)
		return
	}
	i.met.messages.WithLabelValues("done").Inc()
	_ = msg.Ack()
}

// wakes reports whether there can be something to do after an event. After
// the others there is not, or whoever appended it does it.
func wakes(k operator.Kind) bool {
	return k == operator.KindApproved || k == operator.KindOutcomeUnknown || k == operator.KindSubmitted
}

// run brings a request as far as it goes now. Nobody else in this process
// does that meanwhile; who comes in between lets it look once more.
func (i *Issues) run(key requestKey) error {
	i.mu.Lock()
	if _, at := i.busy[key]; at {
		i.busy[key] = true
		i.mu.Unlock()
		return nil
	}
	i.busy[key] = false
	i.mu.Unlock()
	for {
		err := i.advance(key)
		if err != nil {
			i.log.Warn("request does not get on, it is tried again", "class", "issues", "request_id", key.id, "tenant", key.tenant, "err", err)
		}
		i.mu.Lock()
		again := i.busy[key]
		if !again || i.work.Err() != nil {
			delete(i.busy, key)
			i.mu.Unlock()
			return err
		}
		i.busy[key] = false
		i.mu.Unlock()
	}
}

// advance reads the request and does what its state asks for, until there is
// nothing to do.
func (i *Issues) advance(key requestKey) error {
	for range operator.MaxEvents + 1 {
		t, err := i.load(key)
		if err != nil || t == nil {
			return err
		}
		moved := false
		switch t.State {
		case operator.StateApproved:
			moved, err = i.attempt(*t)
		case operator.StateAttempting:
			moved, err = i.expire(*t)
		case operator.StateUnknown:
			i.seek(key)
		case operator.StateSubmitted:
			moved, err = i.tell(*t)
		}
		if err != nil || !moved {
			return err
		}
	}
	return nil
}

// load reads a request. One that is poisoned is left alone, visibly.
func (i *Issues) load(key requestKey) (*operator.Task, error) {
	t, err := i.o.Events.Load(i.work, key.tenant, key.id)
	if errors.Is(err, kv.ErrPoisoned) {
		i.log.Error("request is left alone", "class", "poison", "request_id", key.id, "tenant", key.tenant, "err", err)
		return nil, nil
	}
	if t != nil {
		i.note(key, *t)
	}
	return t, err
}

// note keeps what was read of a request, for the gauges and the sweep.
func (i *Issues) note(key requestKey, t operator.Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was, known := i.seen[key]
	if known && was.events > t.Revision {
		return // an older read
	}
	if known {
		i.met.requests.WithLabelValues(string(was.state)).Dec()
	}
	i.met.requests.WithLabelValues(string(t.State)).Inc()
	i.seen[key] = sight{t.Revision, t.State}
	if t.State != operator.StateUnknown {
		delete(i.search, key)
	}
	if t.State != operator.StateApproved && t.State != operator.StateAttempting {
		delete(i.held, key)
	}
	if submitted(t) {
		delete(i.urgent, key)
	}
}

// sweepLoop finds what no message woke: at start, and every minute.
func (i *Issues) sweepLoop() {
	every(i.pull, i.o.SweepEvery, func() {
		if err := i.sweep(); err != nil && i.pull.Err() == nil {
			i.log.Warn("requests could not be listed, they are with the next sweep", "class", "issues_sweep", "err", err)
		}
	})
}

func (i *Issues) sweep() error {
	all, err := i.o.Events.Requests(i.pull)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, r := range all {
		key := requestKey{r.Tenant, r.ID}
		if !i.due(key, r.Events) {
			continue
		}
		select {
		case i.slots <- struct{}{}:
		case <-i.pull.Done():
			return nil
		}
		wg.Go(func() {
			defer func() { <-i.slots }()
			_ = i.run(key)
		})
	}
	return nil
}

// due reports whether a request with so many events is worth a look.
func (i *Issues) due(key requestKey, events int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	s, known := i.seen[key]
	if !known || s.events < events {
		return true
	}
	switch s.state {
	case operator.StateApproved, operator.StateAttempting:
		return true
	case operator.StateUnknown:
		return i.search[key] == nil
	case operator.StateSubmitted:
		return i.o.Callback != ""
	}
	return false
}
