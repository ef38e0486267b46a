package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/belay-run/belay/cmd/internal/config"
)

// volatile are filesystems that a restart of the machine empties.
var volatile = []string{"tmpfs", "ramfs"}

// storage checks the data folder (DT-23, DT-24).
func (d *doctor) storage() {
	if dir := d.c.Storage.Dir; dir != "" {
		d.dir("storage.dir", dir)
	}
	if dir := d.c.Worker.WorkspaceDir; dir != "" && d.c.Origin("worker.workspace_dir") != config.OriginDefault {
		d.writable("worker.workspace_dir", dir)
	}
}

// dir checks that records in a folder can be written, and will stay.
func (d *doctor) dir(field, dir string) {
	if !d.writable(field, dir) {
		return
	}
	if kind := d.Filesystem(existing(dir)); slices.Contains(volatile, kind) {
		d.warn(field, fmt.Sprintf("%s is on %s: a restart of the machine loses every record", dir, kind),
			"name a folder on a disk or a volume")
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		d.warn(field, dir+" can be entered by every user of this host", "chmod 700 "+dir)
	}
}

// writable checks that a folder is there, or can be made, and takes files.
func (d *doctor) writable(field, dir string) bool {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		d.fail(field, dir+" is a file", "name a folder, or move the file away")
		return false
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.fail(field, fmt.Sprintf("%s cannot be looked at: %s", dir, cause(err)), "check the path and its permissions")
		return false
	}
	where := existing(dir)
	f, err := os.CreateTemp(where, ".belay-doctor-*")
	if err != nil {
		what := "written to"
		if where != dir {
			what = "made in " + where
		}
		d.fail(field, fmt.Sprintf("%s cannot be %s: %s", dir, what, cause(err)), "check the path and its permissions, or name another folder")
		return false
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	return true
}

// existing is the folder itself, or the nearest one above that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// private warns of a file with a secret that others may read.
func (d *doctor) private(field, path string) {
	info, err := os.Stat(path)
	if err != nil {
		return // its own check says so
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		d.warn(field, fmt.Sprintf("%s can be read by other users (mode %04o)", path, mode), "chmod 600 "+path)
	}
}

// cause is an error without the path that the finding names.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
