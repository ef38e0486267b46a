package ingest

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// taskFake stands in for every port of the API. It answers what its fields
// say and remembers what it was asked.
type taskFake struct {
	mu      sync.Mutex
	records map[task.ID]task.Record
	hidden  map[task.ID]bool // not in the read model yet
	page    view.Page
	listErr error
	waits   view.Wait
	getErr  error
	query   view.Query
	logs    map[string]string

	commandErr error
	commands   []string

	deliveries []kv.Logged
	next       string
	deliverErr error
	asked      kv.DeliveryQuery
}

func (f *taskFake) List(q view.Query) (view.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.query = q
	return f.page, f.listErr
}

func (f *taskFake) Waits(task.ID) view.Wait { return f.waits }

func (f *taskFake) Entombed(id task.ID) (int64, bool) {
	r := f.records[id]
	return r.InstallationID, r.Tombstone
}

func (f *taskFake) Find(id task.ID) (view.Item, bool) {
	r, ok := f.records[id]
	return view.Item{ID: r.ID, InstallationID: r.InstallationID, Repo: r.Repo}, ok && !f.hidden[id]
}

func (f *taskFake) Get(_ context.Context, installation int64, id task.ID) (task.Record, uint64, error) {
	if f.getErr != nil {
		return task.Record{}, 0, f.getErr
	}
	r, ok := f.records[id]
	if !ok || r.InstallationID != installation {
		return task.Record{}, 0, kv.ErrNotFound
	}
	return r, 1, nil
}

func (f *taskFake) OpenLog(id task.ID, attempt int) (io.ReadCloser, error) {
	text, ok := f.logs[string(id)+"/"+string(rune('0'+attempt))]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (f *taskFake) Retry(_ context.Context, _ int64, id task.ID, caller string) (task.Record, error) {
	f.commands = append(f.commands, "retry "+string(id)+" "+caller)
	r := f.records[id]
	if f.commandErr != nil {
		return r, f.commandErr
	}
	return r.Retry(r.UpdatedAt.Time)
}

func (f *taskFake) Cancel(_ context.Context, _ int64, id task.ID, caller, reason string) (task.Record, error) {
	f.commands = append(f.commands, "cancel "+string(id)+" "+caller+" "+reason)
	r := f.records[id]
	if f.commandErr != nil {
		return r, f.commandErr
	}
	return r.Cancel(reason, r.UpdatedAt.Time)
}

// deliveryFake is the Deliveries of a taskFake; Find would collide.
type deliveryFake struct{ *taskFake }

func (f deliveryFake) Page(_ context.Context, q kv.DeliveryQuery) (kv.DeliveryPage, error) {
	f.asked = q
	return kv.DeliveryPage{Deliveries: f.deliveries, Next: f.next}, f.deliverErr
}

func (f deliveryFake) Find(_ context.Context, id task.DeliveryID, q kv.DeliveryQuery) (kv.Logged, error) {
	f.asked = q
	for _, l := range f.deliveries {
		if l.ID == id {
			return l, f.deliverErr
		}
	}
	return kv.Logged{}, kv.ErrNotFound
}

func (f deliveryFake) FindAll(_ context.Context, id task.DeliveryID, q kv.DeliveryQuery) ([]kv.Logged, error) {
	f.asked = q
	var out []kv.Logged
	for _, l := range f.deliveries {
		if l.ID == id {
			out = append(out, l)
		}
	}
	if out == nil {
		return nil, kv.ErrNotFound
	}
	return out, f.deliverErr
}

func (f deliveryFake) Get(_ context.Context, seq uint64) (kv.Logged, error) {
	for _, l := range f.deliveries {
		if l.Seq == seq {
			return l, f.deliverErr
		}
	}
	return kv.Logged{}, kv.ErrNotFound
}

// scoped are some of the API's routes behind no authorization: the caller is
// the one that the test put into the context.
func (d *door) scoped() http.Handler {
	r := chi.NewRouter()
	r.Get("/tasks", d.handle(d.listTasks))
	r.Get("/tasks/{id}", d.handle(d.showTask))
	r.Post("/tasks/{id}/retry", d.handle(d.retryTask))
	r.Get("/outbox", d.handle(d.listOutbox))
	r.Post("/outbox/{id}/resolve", d.handle(d.resolveOutbox))
	r.Get("/deliveries", d.handle(d.listDeliveries))
	r.Get("/deliveries/{id}", d.handle(d.showDelivery))
	r.Get("/explain/{id}", d.handle(d.explain))
	r.Post("/deliveries/{id}/replay", d.handle(d.replayDelivery))
	return r
}
