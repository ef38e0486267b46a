package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThroughput(t *testing.T) {
	t.Parallel()
	var said []string
	got, err := MeasureThroughput(t.Context(), t.TempDir(), 2, 20, func(s string) { said = append(said, s) })
	require.NoError(t, err)
	require.Len(t, got.Relay, 2)
	require.Len(t, got.Bare, 2)
	require.Len(t, got.Disk, 2)
	for _, perSecond := range slices.Concat(got.Relay, got.Bare, got.Disk) {
		require.Positive(t, perSecond)
	}
	require.Greater(t, got.Body, 200)
	require.InEpsilon(t, seconds(got.Bare)/seconds(got.Relay), got.Ratio, 0.001)
	require.Contains(t, said, "throughput, round 2 of 2: queue 20 replies")
}

// seconds is what one reply of each round took.
func seconds(rates []float64) (s float64) {
	for _, r := range rates {
		s += 1 / r
	}
	return s
}

func TestDead(t *testing.T) {
	t.Parallel()
	var said []string
	got, err := MeasureDead(t.Context(), t.TempDir(), 20, 5, func(s string) { said = append(said, s) })
	require.NoError(t, err)
	require.Positive(t, got.Tried)
	require.LessOrEqual(t, got.Tried, concurrency, "its seats, and no more")
	for _, w := range []Wait{got.Alone, got.Beside} {
		require.Positive(t, w.P50)
		require.LessOrEqual(t, w.P50, w.P99)
		require.LessOrEqual(t, w.P99, w.Max)
	}
	require.NotEmpty(t, said)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := MeasureThroughput(ctx, t.TempDir(), 1, 1000, func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	for i := 100; i >= 0; i-- {
		waits = append(waits, time.Duration(i)*time.Millisecond)
	}
	require.Equal(t, Wait{50, 99, 100}, percentiles(waits))
	require.Equal(t, Wait{3, 3, 3}, percentiles([]time.Duration{3 * time.Millisecond}))
}
