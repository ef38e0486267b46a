package app

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClassIsLoggedOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	at := time.Unix(1000, 0)
	log := NewLogger(&out, slog.LevelInfo, func() time.Time { return at })
	lines := func() []map[string]any {
		var all []map[string]any
		for line := range strings.Lines(out.String()) {
			var m map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &m))
			all = append(all, m)
		}
		return all
	}
	log.Warn("pull failed", "class", "pull")
	log.Warn("pull failed", "class", "pull")
	log.With("task_id", "t").Warn("pull failed", "class", "pull") // the same class by any logger
	log.WithGroup("g").Warn("pull failed", slog.String("x", "y"))
	log.Warn("beat failed", "class", "beat")
	log.Info("no class")
	log.Info("no class")
	require.Len(t, lines(), 5, "one pull, one beat and all that have no class")

	at = at.Add(classEvery - 1)
	log.Warn("pull failed", "class", "pull")
	require.Len(t, lines(), 5)

	at = at.Add(1)
	log.Warn("pull failed", "class", "pull")
	all := lines()
	require.Len(t, all, 6)
	require.EqualValues(t, 3, all[5]["held_back"])

	at = at.Add(classEvery)
	log.Warn("pull failed", "class", "pull")
	require.NotContains(t, lines()[6], "held_back", "nothing was held back since")

	log.Debug("pull", "class", "debug")
	require.Len(t, lines(), 7, "what the level drops")
}

func TestAClassBelowTheLevelHoldsNothingBack(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	log := NewLogger(&out, slog.LevelWarn, time.Now)
	log.Info("quiet", "class", "c")
	log.Warn("loud", "class", "c")
	require.Contains(t, out.String(), "loud")
}
