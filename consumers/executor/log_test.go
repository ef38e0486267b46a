package executor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/task"
)

// Retention may run on another machine: logs of tasks that are no more go when
// they are old enough.
func TestSweepLogsRemovesThoseOfTasksThatAreGone(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	e := &Executor{cfg: Config{LogDir: dir, Now: func() time.Time { return now }}}
	for name, age := range map[string]time.Duration{"gone": 48 * time.Hour, "kept": 48 * time.Hour, "young": time.Hour, "not an id": 48 * time.Hour} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, "1.log"), nil, 0o600))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	n, err := e.SweepLogs(24*time.Hour, func(id task.ID) bool { return id != "kept" })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, d := range left {
		names = append(names, d.Name())
	}
	require.ElementsMatch(t, []string{"kept", "young", "not an id"}, names)
}
