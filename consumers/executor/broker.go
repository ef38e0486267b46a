package executor

import (
	"fmt"
	"path/filepath"

	"github.com/belay-run/belay/kv/redact"
)

// maxSocketPath is how long the path of a unix socket may be on Linux.
const maxSocketPath = 107

// openBroker opens the job's broker in the attempt's own folder; end closes
// it. Where the folder's path is too long for a socket the run has only the
// token of its environment, and the log says so.
func (e *Executor) openBroker(job *Job, ws *workspace, live *redact.Redactor) (end func() error, err error) {
	none := func() error { return nil }
	if job.Broker == nil {
		return none, nil
	}
	path := filepath.Join(ws.dir, "token.sock")
	if len(path) > maxSocketPath {
		e.cfg.Logger.Warn("no token socket: its path is too long, shorten workspace_dir", "class", "socket", "task_id", string(job.Task.ID), "bytes", len(path))
		return none, nil
	}
	uid := 0
	if e.runAs.cred != nil {
		uid = int(e.runAs.cred.UID)
	}
	b, err := job.Broker(path, uid, func(s redact.Secret) { live.Add(s.Reveal()) })
	if err != nil {
		return none, fmt.Errorf("open token socket: %w", err)
	}
	job.socket = path
	return b.Close, nil
}
