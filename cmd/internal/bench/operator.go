package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/consumers/githubapp/githubtest"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// Confirmers is how many confirm each raced request at once.
const Confirmers = 8

// Operator is how many operator requests a second come to their delivered
// issue, and whether a race makes more than one issue of any.
type Operator struct {
	Requests int       `json:"requests"` // in each round
	Lives    []float64 `json:"lives"`    // per second, proposed to delivered, a round each
	Writes   float64   `json:"writes"`   // synced writes a second of the same disk, in the same run
	Raced    int       `json:"raced"`    // requests that Confirmers confirmed at once
	Won      int       `json:"won"`      // confirmations that were answered Committed
	Posts    int       `json:"posts"`    // requests that create an issue, for those
	Issues   int       `json:"issues"`   // issues there are for those
	RaceRate float64   `json:"race_rate"`
}

// desk is a rig on which requests become issues of a stand-in of GitHub.
type desk struct {
	*rig
	events    *kv.EventStore
	gh        *githubtest.Server
	delivered atomic.Int64
}

var (
	deskOwner  = operator.Owner{Tenant: "bench", Operator: "ann", Conversation: "c1"}
	deskIntent = operator.Intent{Repo: "acme/site", Title: "Fix the door", Body: "It squeaks when it is opened slowly."}
)

type benchTenancy struct{}

// RepoTenant implements kv.Tenancy.
func (benchTenancy) RepoTenant(context.Context, string) (string, error) { return deskOwner.Tenant, nil }

// MeasureOperator lets n requests live from their proposal to the callback
// that tells of their issue, in each round, and then races the confirmation of
// other requests.
func MeasureOperator(ctx context.Context, dir string, rounds, n, raced int, say func(string)) (out Operator, err error) {
	out = Operator{Requests: n, Raced: raced}
	rx, err := newReceiver(ctx, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = first(err, rx.close()) }()
	d, err := newDesk(ctx, filepath.Join(dir, "operator"), rx.url)
	if err != nil {
		return out, err
	}
	defer func() { err = first(err, d.close()) }()
	if out.Writes, err = d.syncedWrites(ctx); err != nil {
		return out, err
	}
	for round := range rounds {
		say(fmt.Sprintf("lives, round %d of %d: %d requests", round+1, rounds, n))
		took, _, err := d.live(ctx, n, 1)
		if err != nil {
			return out, err
		}
		out.Lives = append(out.Lives, rate(n, took))
	}
	say(fmt.Sprintf("race: %d requests, %d confirmers each", raced, Confirmers))
	posts, issues := d.gh.Requests(githubtest.OpCreateIssue), len(d.gh.Issues(100))
	took, won, err := d.live(ctx, raced, Confirmers)
	out.Won, out.RaceRate = won, rate(raced, took)
	out.Posts, out.Issues = d.gh.Requests(githubtest.OpCreateIssue)-posts, len(d.gh.Issues(100))-issues
	return out, err
}

func newDesk(ctx context.Context, dir, url string) (d *desk, err error) {
	d = &desk{}
	if d.rig, err = newRig(ctx, dir); err != nil {
		return d, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.events, err = kv.OpenEventStore(ctx, d.js, kv.EventStoreOptions{Repo: deskIntent.Repo, Tenancy: benchTenancy{}, Now: time.Now}); err != nil {
		return d, err
	}
	if _, err = d.nc.Subscribe(operator.SubjectPrefix+">", d.heard); err != nil {
		return d, fmt.Errorf("listen for events: %w", err)
	}
	if err = d.callback("cockpit", url, 0); err != nil {
		return d, err
	}
	client, err := d.github()
	if err != nil {
		return d, err
	}
	return d, d.work(client, url)
}

// heard counts the requests that are delivered, as their events say.
func (d *desk) heard(m *nats.Msg) {
	if e, _, err := operator.Decode(m.Data); err == nil && e.Kind() == operator.KindDelivered {
		d.delivered.Add(1)
	}
}

// github is a stand-in, and an App that makes no pauses for it.
func (d *desk) github() (*githubapp.Client, error) {
	var err error
	if d.gh, err = githubtest.New(githubtest.Options{RateLimit: 1 << 30}); err != nil {
		return nil, err
	}
	d.undo = append(d.undo, d.gh.Close)
	d.gh.AddInstallation(10, "acme")
	d.gh.AddRepo(10, githubtest.Repo{ID: 100, Owner: "acme", Name: "site"})
	client, err := githubapp.New(githubapp.Options{
		AppID: d.gh.AppID(), PrivateKey: d.gh.PrivateKey(), APIURL: d.gh.URL(),
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		return nil, err
	}
	d.undo = append(d.undo, func() error { client.Close(); return nil })
	return client, nil
}

// work starts what serve runs: the consumer of requests, and the relay.
func (d *desk) work(client *githubapp.Client, url string) error {
	boot := task.BootID(uuid.NewString())
	issues, err := consumers.NewIssues(consumers.IssuesOptions{
		JS: d.js, Events: d.events, GitHub: client, Outbox: d.store, Repo: deskIntent.Repo, Boot: boot,
		Callback: relay.CallbackChannel("cockpit"), To: url,
		Restore: func(context.Context, string, string) error { return nil },
		Logger:  slog.New(slog.DiscardHandler), Now: time.Now, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	rl, err := d.relay(func(r outbox.Record, v relay.Verdict) { issues.Finished(r, v) })
	if err != nil {
		return err
	}
	d.undo = append(d.undo, func() error { return rl.Stop(context.Background()) })
	issues.Start()
	d.undo = append(d.undo, func() error { return issues.Stop(context.Background()) })
	return nil
}

// syncedWrites is what the disk gives: writes of a small record, one after
// the other, each synced.
func (d *desk) syncedWrites(ctx context.Context) (float64, error) {
	const n = 200
	began := time.Now()
	for i := range n {
		if _, err := d.js.Publish(ctx, fmt.Sprintf("event.bench-%d", i), []byte("{}")); err != nil {
			return 0, fmt.Errorf("write: %w", err)
		}
	}
	return rate(n, time.Since(began)), nil
}

// live proposes n requests and confirms each by so many at once, and waits
// until all are delivered. won is how many confirmations were the first.
func (d *desk) live(ctx context.Context, n, confirmers int) (took time.Duration, won int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	want := d.delivered.Load() + int64(n)
	var wins atomic.Int64
	var wg sync.WaitGroup
	next := make(chan struct{})
	began := time.Now()
	for range fillers {
		wg.Go(func() {
			for range next {
				k, err := d.approve(ctx, confirmers)
				wins.Add(int64(k))
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return 0, 0, fmt.Errorf("approve requests: %w", context.Cause(ctx))
	}
	err = until(ctx, "all requests to be delivered", func() bool { return d.delivered.Load() >= want })
	return time.Since(began), int(wins.Load()), err
}

// approve proposes one request and has it confirmed by so many at once.
func (d *desk) approve(ctx context.Context, confirmers int) (won int, err error) {
	id := operator.RequestID(uuid.NewString())
	r, err := d.events.Propose(ctx, deskOwner, id, deskIntent)
	if err != nil || r.Code != operator.Committed {
		return 0, fmt.Errorf("propose: %s: %w", r.Code, err)
	}
	codes := make([]operator.Code, confirmers)
	errs := make([]error, confirmers)
	var wg sync.WaitGroup
	for i := range confirmers {
		wg.Go(func() {
			var r kv.OperatorResult
			r, errs[i] = d.events.Confirm(ctx, deskOwner, id, 1)
			codes[i] = r.Code
		})
	}
	wg.Wait()
	for _, c := range codes {
		if c == operator.Committed {
			won++
		}
	}
	return won, errors.Join(errs...)
}
