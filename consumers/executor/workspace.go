package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/belay-run/belay/kv/task"
)

// ErrTaskID means that a task id cannot name a folder.
var ErrTaskID = errors.New("not a task id")

// checkID keeps ids inside their folder: no dot, no slash, not empty.
func checkID(id task.ID) error {
	within := func(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' }
	if !made(string(id), 1, 128, within) || !alphanumeric(id[0]) {
		return fmt.Errorf("%w: %q", ErrTaskID, string(id))
	}
	return nil
}

// workspace is the folder of one attempt:
//
//	<WorkspaceDir>/<task>/<attempt>/
//	    session-brief.json   what to do
//	    result.json          written by the command
//	    workspace/           the working directory, empty; the command clones
//	    tmp/                 TMPDIR
//	    home/                HOME, if commands run as another user
type workspace struct {
	dir, brief, result, root, tmp, home string
}

func (e *Executor) workspacePath(id task.ID, attempt int) string {
	return filepath.Join(e.cfg.WorkspaceDir, string(id), strconv.Itoa(attempt))
}

// makeWorkspace makes the attempt's folder anew, with brief in it, and hands
// it to the user that commands run as.
func (e *Executor) makeWorkspace(id task.ID, attempt int) (*workspace, error) {
	dir := e.workspacePath(id, attempt)
	ws := &workspace{
		dir: dir, brief: filepath.Join(dir, "session-brief.json"), result: filepath.Join(dir, "result.json"),
		root: filepath.Join(dir, "workspace"), tmp: filepath.Join(dir, "tmp"),
	}
	if err := removeTree(dir); err != nil {
		return nil, fmt.Errorf("clear workspace: %w", err)
	}
	mode := fs.FileMode(0o700)
	dirs := []string{ws.root, ws.tmp}
	if e.runAs.cred != nil {
		mode = 0o711
		ws.home = filepath.Join(dir, "home")
		dirs = append(dirs, ws.home)
	}
	if err := os.MkdirAll(filepath.Dir(dir), mode); err != nil {
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	if err := os.Chmod(filepath.Dir(dir), mode); err != nil { // whatever the umask
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	for _, d := range append([]string{dir}, dirs...) {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, fmt.Errorf("make workspace: %w", err)
		}
	}
	return ws, nil
}

// handOver writes the brief and gives all of the folder to the run's user.
func (e *Executor) handOver(ws *workspace, brief []byte) error {
	if err := os.WriteFile(ws.brief, brief, 0o600); err != nil {
		return fmt.Errorf("write brief: %w", err)
	}
	c := e.runAs.cred
	if c == nil {
		return nil
	}
	// The folder comes last: until then nobody else can reach into it.
	for _, p := range []string{ws.brief, ws.root, ws.tmp, ws.home, ws.dir} {
		if err := os.Lchown(p, int(c.UID), int(c.GID)); err != nil {
			return fmt.Errorf("hand over workspace: %w", err)
		}
	}
	return nil
}

// removeWorkspace removes an attempt's folder, and its task's if it was the
// last one.
func (e *Executor) removeWorkspace(id task.ID, attempt int) error {
	dir := e.workspacePath(id, attempt)
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir)) // refused while there are others
	return nil
}

// removeTree removes a folder, read-only folders in it included: tools make
// such (Go's module cache) and RemoveAll stops at them.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// SweepWorkspaces removes the workspaces that earlier processes left behind,
// and returns how many. It spares those of attempts that live reports and of
// this executor's own runs, and what is no workspace.
func (e *Executor) SweepWorkspaces(live func(id task.ID, attempt int) bool) (int, error) {
	tasks, err := os.ReadDir(e.cfg.WorkspaceDir)
	if err != nil {
		return 0, fmt.Errorf("sweep workspaces: %w", err)
	}
	n := 0
	var errs []error
	for _, t := range tasks {
		id := task.ID(t.Name())
		if !t.IsDir() || checkID(id) != nil {
			continue
		}
		attempts, err := os.ReadDir(filepath.Join(e.cfg.WorkspaceDir, t.Name()))
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep workspaces: %w", err))
			continue
		}
		for _, a := range attempts {
			attempt, err := strconv.Atoi(a.Name())
			if err != nil || attempt < 1 || !a.IsDir() || live(id, attempt) || !e.enter(id, attempt) {
				continue
			}
			err = e.removeWorkspace(id, attempt)
			e.leave(id, attempt)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			n++
		}
	}
	return n, errors.Join(errs...)
}
