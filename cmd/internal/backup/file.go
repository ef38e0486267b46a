package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv"
)

// File takes a backup of the configured store into a file that is not there
// yet, and verifies it. Until then it has the ending ".part", and is removed if
// something goes wrong.
//
// found is nil if there is no backup. With ErrProblems there is one, and what
// is in it does not hold together.
func File(ctx context.Context, c *config.Config, connect Connect, path, tmp string, o TakeOptions, verifying func(string, int64, int64)) (found *kv.Inspection, err error) {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the backup: %w", err)
	}
	defer func() { _ = os.Remove(part) }() // no more there once all went well
	err = From(ctx, c, connect, func(nc *nats.Conn, alone bool) error {
		o.Alone = alone
		_, err := Take(ctx, nc, f, o)
		return err
	})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	a, err := Open(part)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Close() }()
	in, err := Verify(ctx, a, tmp, verifying)
	if err != nil && !errors.Is(err, ErrProblems) {
		return nil, err
	}
	if err := errors.Join(os.Rename(part, path), syncFile(filepath.Dir(path))); err != nil {
		return nil, fmt.Errorf("put the backup into place: %w", err)
	}
	return &in, err
}
