package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	belay "github.com/belay-run/belay"
	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/streams"
)

// applyTimeout bounds what changes the streams.
const applyTimeout = time.Minute

// DiffStreams lists what differs between the configured server's streams and
// streams.json.
func DiffStreams(ctx context.Context, c *config.Config) (changes []streams.Change, err error) {
	err = withStreams(ctx, c, func(ctx context.Context, js jetstream.JetStream, set streams.Set, o streams.Options) error {
		changes, err = streams.Diff(ctx, js, set, o)
		return err
	})
	return changes, err
}

// ApplyStreams makes the configured server's streams as streams.json says; see
// streams.Reconcile.
func ApplyStreams(ctx context.Context, c *config.Config) (report streams.Report, err error) {
	err = withStreams(ctx, c, func(ctx context.Context, js jetstream.JetStream, set streams.Set, o streams.Options) error {
		report, err = streams.Reconcile(ctx, js, set, o)
		return err
	})
	return report, err
}

func withStreams(ctx context.Context, c *config.Config, f func(context.Context, jetstream.JetStream, streams.Set, streams.Options) error) error {
	set, err := streams.Load(belay.StreamsJSON)
	if err != nil {
		return err
	}
	nc, err := Connect(c, "belay streams")
	if err != nil {
		return fmt.Errorf("%w: check [nats] url, or start the belay that has the server", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return f(ctx, js, set, streams.Options{Replicas: c.NATS.Replicas})
}
