package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// fillJob says what a store is to hold: Deliveries in the log, Tasks of which
// made a task that is completed by now, the others ignored.
type fillJob struct {
	Dir        string
	Tasks      int
	Deliveries int
	// Repos is how many repositories they are spread over; 0 is 100.
	Repos int
}

// fillChild writes what belay would have written, many messages at a time.
func fillChild(ctx context.Context, args []string) error {
	job, err := told[fillJob](args)
	if err != nil {
		return err
	}
	st, err := openStore(ctx, job.Dir, syncDefault)
	if err != nil {
		return err
	}
	err = job.publish(st.js)
	for _, consumer := range []string{kv.ConsumerAdmit, kv.ConsumerTasks} {
		if err == nil {
			err = drain(ctx, st.js, consumer, job.Tasks)
		}
	}
	if err = errors.Join(err, st.close()); err != nil {
		return err
	}
	var size int64
	err = filepath.WalkDir(job.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return errors.Join(err, say(size))
}

// fillWindow bounds the publishes that are not acknowledged.
const fillWindow = 4000

func (j fillJob) publish(js jetstream.JetStream) error {
	async, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncMaxPending(fillWindow))
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	every := max(1, j.Deliveries/max(1, j.Tasks))
	made := 0
	for i := range j.Deliveries {
		d := delivery(i, cmp.Or(j.Repos, 100))
		isTask := i%every == 0 && made < j.Tasks
		if !isTask {
			d.Task, d.Routing = nil, task.Ignored(task.UnsupportedAction)
		}
		if err := send(async, kv.Subject(&d), string(d.ID), &d); err != nil {
			return err
		}
		if !isTask {
			continue
		}
		made++
		r, err := finished(d, uint64(i+1))
		if err != nil {
			return err
		}
		if err := send(async, "$KV."+kv.BucketState+"."+kv.TaskKey(r.InstallationID, r.ID), "", &r); err != nil {
			return err
		}
	}
	select {
	case <-async.PublishAsyncComplete():
		return nil
	case <-time.After(time.Minute):
		return errors.New("publishes were not acknowledged")
	}
}

func send(js jetstream.JetStream, subject, msgID string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if msgID != "" {
		m.Header = nats.Header{jetstream.MsgIDHeader: {msgID}}
	}
	if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// delivery is an issue that got a label: a task without a supersede key. It
// spreads over ten installations and some repositories.
func delivery(i, repos int) task.Delivery {
	id := task.DeliveryID(uuid.NewString())
	d := task.Delivery{
		V: task.Version, Source: task.DefaultSource, ID: id, Event: "issues", Action: "labeled",
		InstallationID: int64(1 + i%10), RepoID: int64(1 + i%repos), Repo: fmt.Sprintf("acme/service-%d", i%repos), Number: i,
		ReceivedAt: task.At(time.Now()),
		Task: &task.Spec{
			FamiliarID: "cody", CloneURL: "https://git.example/acme/service.git", DefaultBranch: "main",
			Kind: task.Kind{Name: task.FixIssue, IssueNumber: i, IssueTitle: fmt.Sprintf("Upload number %d fails with a reset", i)},
		},
	}
	sum := make([]byte, len(placeHash))
	fillHex(sum)
	d.PayloadHash = string(sum)
	d.Task.ID = kv.TaskID(d.Source, task.MessageID(d.Source, id))
	d.Routing = task.ToTask(d.Task.ID)
	return d
}

// finished is the record of a delivery whose task has run once.
func finished(d task.Delivery, seq uint64) (task.Record, error) {
	now := time.Now()
	r, err := task.New(d, seq, task.At(now))
	if err != nil {
		return r, err
	}
	h := task.Holder{N: 1, Boot: "0123456789abcdef", Nonce: "fedcba9876543210"}
	if r, err = r.Claim("worker-1", h.Boot, h.Nonce, now); err != nil {
		return r, err
	}
	return r.Finish(h, task.Result{State: task.Completed, Status: task.ResultSuccess, Summary: "Retried the upload."}, now)
}

// drain acknowledges what a consumer has, as if its tasks had been handled.
func drain(ctx context.Context, js jetstream.JetStream, consumer string, n int) error {
	c, err := js.Consumer(ctx, kv.StreamWebhooks, consumer)
	if err != nil {
		return fmt.Errorf("bind %s: %w", consumer, err)
	}
	for n > 0 {
		batch, err := c.Fetch(min(n, 500), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return fmt.Errorf("drain %s: %w", consumer, err)
		}
		got := 0
		for m := range batch.Messages() {
			got++
			if err := m.Ack(); err != nil {
				return fmt.Errorf("drain %s: %w", consumer, err)
			}
		}
		if got == 0 {
			return fmt.Errorf("drain %s: %d messages did not come: %w", consumer, n, batch.Error())
		}
		n -= got
	}
	return js.Conn().Flush()
}
