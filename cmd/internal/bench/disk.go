package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// diskWrites is how many synced writes one look at the disk makes.
const diskWrites = 200

// syncedWrites is how many writes of n bytes a second the folder's disk takes
// one after the other, each synced: every reply costs two of these to send.
func syncedWrites(dir string, n int) (perSecond float64, err error) {
	f, err := os.Create(filepath.Join(dir, "disk"))
	if err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	data := make([]byte, n)
	began := time.Now()
	for range diskWrites {
		if _, err := f.Write(data); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
	}
	return rate(diskWrites, time.Since(began)), nil
}
