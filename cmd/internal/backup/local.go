package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/natsserver"
)

// stopTimeout bounds the stop of a server of our own.
const stopTimeout = time.Minute

// RestoreDir restores a backup to the embedded server's store below a data
// folder, which must have none. Until all is in place the store is beside it;
// what is left of a restore that was killed may be removed.
func RestoreDir(ctx context.Context, dir, natsConf string, a *Archive, o RestoreOptions) (held kv.Held, err error) {
	unlock, err := natsserver.Lock(dir)
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	store := natsserver.StoreDir(dir)
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		return held, fmt.Errorf("%w: %s", ErrNotEmpty, store)
	}
	tmp, err := os.MkdirTemp(dir, ".restore-")
	if err != nil {
		return held, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	err = onDir(ctx, natsserver.Options{Dir: tmp, ConfigFile: natsConf, SyncLater: true}, func(nc *nats.Conn) error {
		held, err = Restore(ctx, nc, a, o)
		return err
	})
	if err != nil {
		return held, err
	}
	if err := syncAll(natsserver.StoreDir(tmp)); err != nil {
		return held, fmt.Errorf("write to disk: %w", err)
	}
	if err := os.Rename(natsserver.StoreDir(tmp), store); err != nil {
		return held, fmt.Errorf("put into place: %w", err)
	}
	return held, syncFile(dir)
}

// onDir runs f on a server of its own over the store below a data folder.
func onDir(ctx context.Context, o natsserver.Options, f func(nc *nats.Conn) error) (err error) {
	o.Listen = natsserver.ListenNone
	s, err := natsserver.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, s.Shutdown(sctx))
	}()
	nc, err := nats.Connect("", append(s.ConnectOptions(), nats.Name("belay backup"))...)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	return f(nc)
}

// syncAll puts every file and folder below top on the disk.
func syncAll(top string) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return syncFile(path)
	})
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
