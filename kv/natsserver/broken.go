package natsserver

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// checkStreams wants every stream that has messages on the disk to be there.
// nats-server leaves one out whose meta.inf or meta.sum is damaged, with a line
// in its log; a stream of that name would then be made anew, empty (J27). A node
// of a cluster starts all the same: the others have what it has lost.
func (s *Server) checkStreams() error {
	if s.opts.Cluster.Port != 0 {
		return nil
	}
	found, err := s.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return fail(ErrStore, err, "nats-server does not say which streams it has on %s: %v", s.storeDir(), err)
	}
	have := map[string]bool{}
	for _, a := range found.AccountDetails {
		for _, st := range a.Streams {
			have[filepath.Join(a.Name, "streams", st.Name)] = true
		}
	}
	var broken []string
	blocks, _ := filepath.Glob(filepath.Join(s.storeDir(), "*", "streams", "*", "msgs", "*.blk")) // the pattern is well-formed
	for _, path := range blocks {
		dir, err := filepath.Rel(s.storeDir(), filepath.Dir(filepath.Dir(path)))
		name := filepath.Base(dir)
		if err == nil && !have[dir] && !strings.HasPrefix(name, ".") && !slices.Contains(broken, name) {
			broken = append(broken, name)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return fail(ErrStore, nil, "stream %s on %s cannot be read, as its meta.inf or meta.sum is damaged: move the store away and restore a backup (`belay restore`)",
		strings.Join(broken, ", "), s.storeDir())
}
