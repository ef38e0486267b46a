package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/consumers"
	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
)

// ErrNoStore means that nothing was ever stored where the configuration says.
var ErrNoStore = errors.New("there is no store")

// connectionName is what the NATS server shows of us.
const connectionName = "belay backup"

// Connect connects to the servers of [nats] url, or to the embedded one of a
// belay that runs.
type Connect func(c *config.Config, name string) (*nats.Conn, error)

// From runs f on a connection to the store that a configuration names: that of
// [nats] url, that of a belay which runs on the data folder, or, when none
// does, one of a server of its own (alone).
func From(ctx context.Context, c *config.Config, connect Connect, f func(nc *nats.Conn, alone bool) error) error {
	if c.Embedded() {
		store := natsserver.StoreDir(c.Storage.Dir)
		if _, err := os.Stat(store); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w at %s: start `belay serve` once, or correct storage.dir", ErrNoStore, store)
		}
		err := onDir(ctx, natsserver.Options{Dir: c.Storage.Dir, ConfigFile: c.NATS.Config}, func(nc *nats.Conn) error { return f(nc, true) })
		if !errors.Is(err, natsserver.ErrDirTaken) {
			return err
		}
	}
	nc, err := connect(c, connectionName)
	if err != nil {
		return err
	}
	defer nc.Close()
	return f(nc, false)
}

// To restores a backup to where a configuration's store shall be.
func To(ctx context.Context, c *config.Config, connect Connect, a *Archive, o RestoreOptions) (kv.Held, error) {
	o.Hold.Tell = tell(c)
	if c.Embedded() {
		return RestoreDir(ctx, c.Storage.Dir, c.NATS.Config, a, o)
	}
	o.Replicas = c.NATS.Replicas
	nc, err := connect(c, connectionName)
	if err != nil {
		return kv.Held{}, err
	}
	defer nc.Close()
	return Restore(ctx, nc, a, o)
}

// tell makes the outbox record that tells the configured callback of an
// operator's issue, as it is made when the issue is there.
func tell(c *config.Config) func(t operator.Task) (*outbox.Record, error) {
	if c.Operator.Callback == "" {
		return nil
	}
	return func(t operator.Task) (*outbox.Record, error) {
		r, err := consumers.TellOf(t, relay.CallbackChannel(c.Operator.Callback), c.Operator.Callback)
		return &r, err
	}
}
