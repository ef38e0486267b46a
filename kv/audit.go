package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// Kinds of audit entries that the log makes itself.
const (
	// AuditRead sums up what one caller read in one minute.
	AuditRead = "read"
	// AuditDenied is a refused request; the first of a remote address in a
	// minute at once, the others of that minute as one entry with their count.
	AuditDenied = "denied"
)

const (
	// auditQueue is how many entries may wait to be stored.
	auditQueue = 1024
	// auditTry bounds one try to store an entry, auditPatience all of them.
	auditTry      = 3 * time.Second
	auditPatience = 30 * time.Second
	// auditRoom is how long a mutation waits for room in a full queue.
	auditRoom = time.Second
	auditPoll = 10 * time.Millisecond
	// maxDetail bounds an entry's free text, in bytes.
	maxDetail = 2 << 10
)

var (
	errAuditClosed = errors.New("audit log is closed")
	errAuditFull   = errors.New("queue is full")
)

// AuditEntry is one thing that somebody did or tried, as the trail keeps it.
type AuditEntry struct {
	V  int       `json:"v"`
	At task.Time `json:"at"`
	// Kind says what was done: `read`, `denied`, `retry`, `interrupted`, …
	Kind string `json:"kind"`
	// Caller is who asked, "" for belay itself.
	Caller         string          `json:"caller,omitempty"`
	InstallationID int64           `json:"installation_id,omitempty"`
	Repo           string          `json:"repo,omitempty"`
	TaskID         task.ID         `json:"task_id,omitempty"`
	DeliveryID     task.DeliveryID `json:"delivery_id,omitempty"`
	// Detail says how it went, for people; redacted.
	Detail string `json:"detail,omitempty"`
	// Count is how many requests a `read` or `denied` stands for.
	Count int `json:"count,omitempty"`
}

// AuditOptions are what an AuditLog is made of; the zero value will do.
type AuditOptions struct {
	// Logger is told of entries that are lost; nil is slog.Default.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Redactor takes secrets out of free text; nil knows the token patterns.
	Redactor *redact.Redactor
	// Queue is how many entries may wait to be stored; 0 is 1024.
	Queue int
	// Installation finds the one of a task, for entries that name only the
	// task; nil: these name none. It is called by the log's own goroutine.
	Installation func(id task.ID) (installation int64, ok bool)
	// Hooks are failpoints for tests.
	Hooks *Hooks
}

// AuditLog is stream AUDIT: who did what. Callers do not wait for the store:
// entries go through a bounded queue that one goroutine drains, and what does
// not fit, or cannot be stored for 30 s, is counted by Dropped and logged.
type AuditLog struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	o      AuditOptions

	tally   tally
	dropped atomic.Int64

	mu     sync.RWMutex // held to send to queue, and to close it
	closed bool
	queue  chan AuditEntry
	done   chan struct{}
	stop   context.CancelFunc
}

// OpenAuditLog binds to stream AUDIT, which must exist, and starts to store
// entries; Close ends it.
func OpenAuditLog(ctx context.Context, js jetstream.JetStream, o AuditOptions) (*AuditLog, error) {
	s, err := js.Stream(ctx, StreamAudit)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamAudit, classify(err))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redactor == nil {
		o.Redactor = redact.New()
	}
	if o.Queue == 0 {
		o.Queue = auditQueue
	}
	run, stop := context.WithCancel(context.Background())
	l := &AuditLog{js: js, stream: s, o: o, queue: make(chan AuditEntry, o.Queue), done: make(chan struct{}), stop: stop}
	go l.drain(run)
	return l, nil
}

// Record notes what belay itself did to a task. It never blocks.
func (l *AuditLog) Record(kind string, id task.ID, repo, detail string) {
	l.enqueue(context.Background(), 0, AuditEntry{Kind: kind, TaskID: id, Repo: repo, Detail: detail})
}

// Mutation notes what a caller did. With a full queue it waits up to a second,
// for of all entries this kind is missed most.
func (l *AuditLog) Mutation(ctx context.Context, e AuditEntry) {
	l.enqueue(ctx, auditRoom, e)
}

// Read notes that caller, who sees one installation or (0) all, read what, a
// name of a route; one entry a caller and minute is stored, with the count.
func (l *AuditLog) Read(caller string, installation int64, what string) {
	l.store(l.tally.add(l.o.Now(), tallyKey{AuditRead, caller, installation}, what))
}

// Denied notes a refused request of a remote address. A flood of them makes
// two entries a minute, so that it cannot push others out of the trail.
func (l *AuditLog) Denied(what, remote string) {
	l.store(l.tally.add(l.o.Now(), tallyKey{AuditDenied, remote, 0}, what))
}

// Dropped counts the entries that were lost.
func (l *AuditLog) Dropped() int64 { return l.dropped.Load() }

// Close stores what waits, until ctx ends, and ends the log; later entries are
// lost. Further calls wait for the first.
func (l *AuditLog) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	defer l.stop()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
	}
	before := l.Dropped()
	l.stop()
	<-l.done
	return fmt.Errorf("flush audit log, %d entries lost: %w", l.Dropped()-before, ctx.Err())
}

func (l *AuditLog) store(es []AuditEntry) {
	for _, e := range es {
		l.enqueue(context.Background(), 0, e)
	}
}

// enqueue stamps an entry and hands it to the drain, waiting at most room.
func (l *AuditLog) enqueue(ctx context.Context, room time.Duration, e AuditEntry) {
	if e.At.IsZero() {
		e.At = task.At(l.o.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, room)
	defer cancel()
	err := l.offer(e)
	for errors.Is(err, errAuditFull) && sleep(ctx, auditPoll) {
		err = l.offer(e)
	}
	if err != nil {
		l.drop(e, err)
	}
}

func (l *AuditLog) offer(e AuditEntry) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errAuditClosed
	}
	select {
	case l.queue <- e:
		return nil
	default:
		return errAuditFull
	}
}

func (l *AuditLog) drop(e AuditEntry, err error) {
	l.dropped.Add(1)
	l.o.Logger.Error("audit entry is lost", "class", "audit", "kind", e.Kind, "caller", e.Caller, "task_id", e.TaskID, "err", err)
}

// drain stores entries until the queue is closed and empty, and the counts of
// minutes that are over. When run ends, what is left is dropped.
func (l *AuditLog) drain(run context.Context) {
	defer close(l.done)
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-minute.C:
			l.keepAll(run, l.tally.flush(l.o.Now()))
		case e, open := <-l.queue:
			if !open {
				l.keepAll(run, l.tally.flush(time.Time{}))
				return
			}
			l.keep(run, e)
		}
	}
}

func (l *AuditLog) keepAll(run context.Context, es []AuditEntry) {
	for _, e := range es {
		l.keep(run, e)
	}
}

// keep stores one entry, repeating it under one message id.
func (l *AuditLog) keep(run context.Context, e AuditEntry) {
	ctx, cancel := context.WithTimeout(run, auditPatience)
	defer cancel()
	e.V = task.Version
	e.Detail = task.Cut(l.o.Redactor.String(e.Detail), maxDetail)
	if e.InstallationID == 0 && e.TaskID != "" && l.o.Installation != nil {
		e.InstallationID, _ = l.o.Installation(e.TaskID)
	}
	data, err := json.Marshal(&e)
	if err != nil {
		l.drop(e, err)
		return
	}
	m := &nats.Msg{Subject: AuditSubject(&e), Data: data, Header: auditHeader(&e)}
	wait := 20 * time.Millisecond
	for {
		err := l.try(ctx, m)
		if err == nil {
			return
		}
		if errors.Is(err, ErrTooLarge) || !sleep(ctx, wait) {
			l.drop(e, err)
			return
		}
		wait = min(2*wait, time.Second)
	}
}

// AuditSubject is where an entry stands in stream AUDIT: audit.<kind>, or
// audit.<kind>.<installation> where it is about one.
func AuditSubject(e *AuditEntry) string {
	if e.InstallationID == 0 {
		return Key("audit", e.Kind)
	}
	return Key("audit", e.Kind, num(e.InstallationID))
}

// Headers by which pages of the trail are picked, beside HeaderRepo.
const (
	headerCaller = "Belay-Caller"
	headerTask   = "Belay-Task"
)

func auditHeader(e *AuditEntry) nats.Header {
	h := nats.Header{jetstream.MsgIDHeader: {uuid.NewString()}}
	for name, v := range map[string]string{HeaderRepo: e.Repo, headerCaller: e.Caller, headerTask: string(e.TaskID)} {
		if v != "" {
			h[name] = []string{headerText(v)}
		}
	}
	return h
}

func (l *AuditLog) try(ctx context.Context, m *nats.Msg) error {
	if err := l.o.Hooks.before(ctx, "audit", m.Subject); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, auditTry)
	defer cancel()
	if _, err := l.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)); err != nil {
		return fmt.Errorf("store audit entry: %w", classify(err))
	}
	return l.o.Hooks.after(ctx, "audit", m.Subject)
}
