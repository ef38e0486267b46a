package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// serverJob tells the server under load what to store to.
type serverJob struct {
	Variant string
	Dir     string
	URL     string // of a cluster, instead of a server in Dir
	Profile string
}

// listening is where the server ended up.
type listening struct{ Addr string }

// serverChild is our handler on a listener, over one of the stores.
func serverChild(ctx context.Context, args []string) error {
	job, err := told[serverJob](args)
	if err != nil {
		return err
	}
	log, closeLog, err := openLog(ctx, job)
	if err != nil {
		return err
	}
	srv, addr, err := serveHandler(ctx, log)
	if err != nil {
		return errors.Join(err, closeLog())
	}
	stop, err := profiled(job.Profile)
	if err == nil {
		before := ownUsage()
		err = say(listening{addr})
		untilTold()
		err = errors.Join(err, stop(), say(ownUsage().since(before)))
	}
	return errors.Join(err, srv.Close(), closeLog())
}

// serveHandler listens on a free port of loopback.
func serveHandler(ctx context.Context, log ingest.DeliveryLog) (*http.Server, string, error) {
	reg := prometheus.NewRegistry()
	cfg, keys := routing(), []github.Secret{github.NewSecret("current", []byte(secret))}
	s, err := ingest.New(ingest.Options{
		Log: log, Registerer: reg, Gatherer: reg,
		Config: func() *github.Config { return cfg }, Secrets: func() []github.Secret { return keys },
	})
	if err != nil {
		return nil, "", err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	srv := s.HTTPServer(s.Public())
	go func() { _ = srv.Serve(s.Listener(l)) }()
	return srv, l.Addr().String(), nil
}

func openLog(ctx context.Context, job serverJob) (ingest.DeliveryLog, func() error, error) {
	switch job.Variant {
	case variantNothing:
		return nothing{}, func() error { return nil }, nil
	case variantSQLite:
		l, err := openSQLiteLog(ctx, filepath.Join(job.Dir, "sqlite.db"))
		if err != nil {
			return nil, nil, err
		}
		return l, l.db.Close, nil
	}
	st, err := openStoreOf(ctx, job.URL, job.Dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := kv.OpenDeliveryLog(ctx, st.js)
	return l, st.close, err
}

// nothing is a store that accepts everything and keeps nothing.
type nothing struct{}

func (nothing) Accept(_ context.Context, d task.Delivery) (kv.Accepted, error) {
	if d.Task != nil {
		d.Routing = task.ToTask(kv.TaskID(d.Source, task.MessageID(d.Source, d.ID)))
	}
	return kv.Accepted{Delivery: d, Seq: 1}, nil
}

// sqliteLog is the store one would write first: a delivery and its task in
// one transaction, one writer.
type sqliteLog struct {
	mu             sync.Mutex
	db             *sql.DB
	delivery, task *sql.Stmt
}

func openSQLiteLog(ctx context.Context, path string) (*sqliteLog, error) {
	db, err := openSQLite(ctx, path, "FULL")
	if err != nil {
		return nil, err
	}
	l := &sqliteLog{db: db}
	if l.delivery, err = db.PrepareContext(ctx, insertDelivery); err == nil {
		l.task, err = db.PrepareContext(ctx, insertTask)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare: %w", err), db.Close())
	}
	return l, nil
}

// Accept implements ingest.DeliveryLog.
func (l *sqliteLog) Accept(ctx context.Context, d task.Delivery) (kv.Accepted, error) {
	if d.Task == nil {
		return kv.Accepted{}, errors.New("the benchmark has no ignored deliveries")
	}
	d.Routing = task.ToTask(kv.TaskID(d.Source, task.MessageID(d.Source, d.ID)))
	rows, err := rowsOf(&d)
	if err != nil {
		return kv.Accepted{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return kv.Accepted{}, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.StmtContext(ctx, l.delivery).ExecContext(ctx, rows.delivery...); err != nil {
		return kv.Accepted{}, fmt.Errorf("insert delivery: %w", err)
	}
	if _, err := tx.StmtContext(ctx, l.task).ExecContext(ctx, rows.task...); err != nil {
		return kv.Accepted{}, fmt.Errorf("insert task: %w", err)
	}
	return kv.Accepted{Delivery: d, Seq: 1}, tx.Commit()
}

// publishJob tells how to publish without HTTP.
type publishJob struct {
	loadJob

	Dir     string
	URL     string // of a cluster, instead of a server in Dir
	Profile string
}

// publishChild publishes the log's messages from as many goroutines as there
// would be clients, in the server's own process.
func publishChild(ctx context.Context, args []string) error {
	job, err := told[publishJob](args)
	if err != nil {
		return err
	}
	st, err := openStoreOf(ctx, job.URL, job.Dir)
	if err != nil {
		return err
	}
	data, d, err := message()
	if err != nil {
		return errors.Join(err, st.close())
	}
	stop, err := profiled(job.Profile)
	if err != nil {
		return errors.Join(err, st.close())
	}
	before := ownUsage()
	got, err := job.drive(ctx, func(context.Context) (func() error, func(), error) {
		return publisher(st.js, &d, bytes.Clone(data)), func() {}, nil
	})
	used := ownUsage().since(before)
	if err = errors.Join(err, stop(), st.close()); err != nil {
		return err
	}
	if err := say(got); err != nil {
		return err
	}
	return say(used)
}

// publisher returns a step that publishes data as if it were another delivery.
func publisher(js jetstream.JetStream, d *task.Delivery, data []byte) func() error {
	find := func(place string) []byte {
		i := bytes.Index(data, []byte(place))
		return data[i : i+len(place)]
	}
	id, sum := find(placeID), find(placeHash)
	tasks := [][]byte{find(placeTask)}
	if i := bytes.LastIndex(data, []byte(placeTask)); i >= 0 {
		tasks = append(tasks, data[i:i+len(placeTask)])
	}
	subject := kv.Subject(d)
	return func() error {
		fillID(id)
		fillHex(sum)
		for _, t := range tasks {
			fillID(t)
		}
		m := &nats.Msg{Subject: subject, Data: bytes.Clone(data), Header: nats.Header{
			jetstream.MsgIDHeader: {string(id)}, kv.HeaderRepo: {d.Repo},
		}}
		ctx, cancel := context.WithTimeout(context.Background(), ingest.DefaultIntakeDeadline)
		defer cancel()
		_, err := js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		return err
	}
}
