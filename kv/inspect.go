package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/task"
)

// maxProblems bounds how many problems an Inspection names.
const maxProblems = 100

// inspectBatch is how many deliveries are read at once.
const inspectBatch = 200

// Inspection is what a store holds, and what of it does not fit together.
type Inspection struct {
	Deliveries int `json:"deliveries"`
	Tasks      int `json:"tasks"`
	Tombstones int `json:"tombstones"`
	Replies    int `json:"replies"`
	Pointers   int `json:"pointers"`
	Requests   int `json:"requests"`
	// Problems name each its key or sequence; only the first 100 are kept, and
	// Broken counts all.
	Problems []string `json:"problems"`
	Broken   int      `json:"broken"`
	// Lost counts admitted deliveries whose task has no record.
	Lost int `json:"lost"`
}

func (r *Inspection) problem(format string, args ...any) {
	if r.Broken++; len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Inspect reads a whole store through and checks that every record can be read
// and that what they name exists (DT-19): deliveries, tasks, attempts, the
// pointers of reviews, replies and operator tasks. Every delivery up to
// sequence admitted must have its task's record. It changes nothing, and holds
// no more than a batch in memory. An error means that it could not look.
func Inspect(ctx context.Context, js jetstream.JetStream, admitted uint64) (Inspection, error) {
	in := &inspector{js: js}
	var err error
	if in.tasks, err = OpenTaskStore(ctx, js); err != nil {
		return in.r, err
	}
	if in.log, err = OpenDeliveryLog(ctx, js); err != nil {
		return in.r, err
	}
	in.first, in.last = in.log.stream.CachedInfo().State.FirstSeq, in.log.stream.CachedInfo().State.LastSeq
	for _, step := range []func(context.Context) error{
		in.records, in.requests, func(ctx context.Context) error { return in.deliveries(ctx, admitted) },
	} {
		if err := step(ctx); err != nil {
			return in.r, err
		}
	}
	return in.r, nil
}

// inspector is one run of Inspect.
type inspector struct {
	js          jetstream.JetStream
	tasks       *TaskStore
	log         *DeliveryLog
	first, last uint64 // of the log
	r           Inspection
}

// records checks bucket STATE.
func (in *inspector) records(ctx context.Context) error {
	return in.tasks.b.entries(ctx, ">", func(key string, e Entry) error {
		value := e.Value
		switch prefix, _, _ := strings.Cut(key, "."); prefix {
		case PrefixTask:
			return in.task(ctx, key, value)
		case PrefixOutbox:
			return in.reply(ctx, key, value)
		case PrefixSupersede:
			return in.pointer(ctx, key, value)
		case PrefixGate:
			if _, err := decodeGate(value); err != nil {
				in.r.problem("%s: %v", key, err)
			}
		}
		return nil
	})
}

// task checks a task's record, its attempts and its delivery.
func (in *inspector) task(ctx context.Context, key string, value []byte) error {
	r, err := task.DecodeRecord(value)
	if err != nil {
		in.r.problem("%s: %v", key, err)
		return nil
	}
	in.r.Tasks++
	if r.Tombstone {
		in.r.Tombstones++
	}
	if want := TaskKey(r.InstallationID, r.ID); key != want {
		in.r.problem("%s: it is the record of %s", key, want)
	}
	in.attempts(key, &r)
	switch {
	case r.DeliverySeq > in.last:
		in.r.problem("%s: its delivery %s (%d) is not in the log, which ends at %d", key, r.DeliveryID, r.DeliverySeq, in.last)
	case r.DeliverySeq >= in.first && r.DeliverySeq > 0:
		return in.origin(ctx, key, &r)
	case !r.State.Terminal():
		in.r.problem("%s: it is %s, but its delivery %s (%d) was purged", key, r.State, r.DeliveryID, r.DeliverySeq)
	}
	return nil
}

// origin checks that a record's delivery is the one it says.
func (in *inspector) origin(ctx context.Context, key string, r *task.Record) error {
	d, err := in.log.Get(ctx, r.DeliverySeq)
	switch {
	case errors.Is(err, ErrNotFound):
		if !r.Tombstone { // those of a deleted installation are purged
			in.r.problem("%s: its delivery %s (%d) is not in the log", key, r.DeliveryID, r.DeliverySeq)
		}
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer): // the log's own problem
	case err != nil:
		return err
	case d.Task == nil || d.Task.ID != r.ID:
		in.r.problem("%s: delivery %d is not of this task", key, r.DeliverySeq)
	}
	return nil
}

// attempts checks that a record's attempts are in order, and that only the
// last one of a running task is open.
func (in *inspector) attempts(key string, r *task.Record) {
	before := 0
	for i, a := range r.AttemptLog {
		if a.N <= before || a.N > r.Attempts {
			in.r.problem("%s: attempt %d after %d of %d", key, a.N, before, r.Attempts)
		}
		if before = a.N; a.EndedAt.IsZero() && (i+1 < len(r.AttemptLog) || r.State != task.Running) {
			in.r.problem("%s: attempt %d is open, the task is %s", key, a.N, r.State)
		}
	}
	if r.State == task.Running && r.Open() == nil {
		in.r.problem("%s: it is running without an attempt", key)
	}
}

// reply checks an outbox record and that its task is there.
func (in *inspector) reply(ctx context.Context, key string, value []byte) error {
	r, err := DecodeOutbox(value)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		in.r.problem("%s: %v", key, err)
		return nil
	}
	in.r.Replies++
	if key != OutboxKey(r.ID) {
		in.r.problem("%s: it is the record of %s", key, r.ID)
	}
	if r.TaskID == "" {
		return nil
	}
	return in.exists(ctx, key, TaskKey(r.InstallationID, task.ID(r.TaskID)), r.TaskID)
}

// pointer checks the newest review under a key.
func (in *inspector) pointer(ctx context.Context, key string, value []byte) error {
	var p task.Pointer
	if err := task.Decode(value, &p, &p.V); err != nil {
		in.r.problem("%s: %v", key, err)
		return nil
	}
	in.r.Pointers++
	if p.Order.Seq < in.first {
		return nil // its task may be gone with its retention
	}
	installation := strings.Split(key, ".")[1] // a number, as SupersedeKey writes it
	return in.exists(ctx, key, Key(PrefixTask, installation, string(p.Task)), string(p.Task))
}

// exists checks that a task which a key names has a record.
func (in *inspector) exists(ctx context.Context, key, record, id string) error {
	_, err := in.tasks.b.Get(ctx, record)
	if errors.Is(err, ErrNotFound) {
		in.r.problem("%s: task %s has no record", key, id)
		return nil
	}
	return err
}

// requests checks the operator tasks.
func (in *inspector) requests(ctx context.Context) error {
	s, err := OpenEventStore(ctx, in.js, EventStoreOptions{Now: time.Now})
	if err != nil {
		return err
	}
	all, err := s.Requests(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		var t *operator.Task
		t, err = s.Load(ctx, q.Tenant, q.ID)
		switch {
		case errors.Is(err, ErrPoisoned):
			in.r.problem("operator.%s.%s: %v", q.Tenant, q.ID, err)
		case err != nil:
			return err
		case t == nil || t.Revision != q.Events:
			in.r.problem("operator.%s.%s: it has %d events, of which not all are read", q.Tenant, q.ID, q.Events)
		default:
			in.r.Requests++
		}
	}
	return nil
}

// deliveries checks the log, and that what was admitted has its record.
func (in *inspector) deliveries(ctx context.Context, admitted uint64) error {
	cons, err := in.js.CreateConsumer(ctx, StreamWebhooks, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("read deliveries: %w", classify(err))
	}
	defer func() { _ = in.js.DeleteConsumer(context.WithoutCancel(ctx), StreamWebhooks, cons.CachedInfo().Name) }()
	for left := cons.CachedInfo().NumPending; left > 0; {
		batch, err := cons.FetchNoWait(inspectBatch)
		if err != nil {
			return fmt.Errorf("read deliveries: %w", classify(err))
		}
		got := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("read deliveries: %w", err)
			}
			got, left = got+1, meta.NumPending
			if err := in.delivery(ctx, m.Data(), meta.Sequence.Stream, admitted); err != nil {
				return err
			}
		}
		switch err := errors.Join(batch.Error(), ctx.Err()); {
		case err != nil:
			return fmt.Errorf("read deliveries: %w", err)
		case got == 0:
			return fmt.Errorf("read deliveries: %d were not sent: %w", left, ErrUnknown)
		}
	}
	return nil
}

func (in *inspector) delivery(ctx context.Context, data []byte, seq, admitted uint64) error {
	d, err := Decode(data)
	if err != nil {
		in.r.problem("delivery %d: %v", seq, err)
		return nil
	}
	in.r.Deliveries++
	if d.Task == nil || seq > admitted {
		return nil
	}
	_, err = in.tasks.b.Get(ctx, TaskKey(d.InstallationID, d.Task.ID))
	if errors.Is(err, ErrNotFound) {
		in.r.Lost++
		in.r.problem("delivery %d (%s): its task %s has no record", seq, d.ID, d.Task.ID)
		return nil
	}
	return err
}

// Admitted is the sequence up to which every delivery has been admitted: the
// floor of what the durable consumer has acknowledged.
func Admitted(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	c, err := js.Consumer(ctx, StreamWebhooks, ConsumerAdmit)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up consumer %s: %w", ConsumerAdmit, classify(err))
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// Beating counts the processes that gave a sign of life not long ago and did
// not say goodbye.
func Beating(ctx context.Context, js jetstream.JetStream) (int, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return 0, err
	}
	n := 0
	err = b.each(ctx, PrefixWorker+".>", func(Entry) error { n++; return nil })
	return n, err
}
