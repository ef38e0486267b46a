package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBenchOutbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"bench", "outbox", "--rounds", "1", "--replies", "5", "--queued", "2", "--samples", "2", "--dir", dir}
	got := try(t, nil, args...)
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^relay +\d+ replies/s \(rounds of 5, \d+ bytes, 16 at once\)$`, got.out)
	require.Regexp(t, `(?m)^disk +\d+ synced writes/s`, got.out)
	require.Regexp(t, `(?m)^plain POSTs +\d+ /s`, got.out)
	require.Regexp(t, `(?m)^beside a dead one +p50 [\d.]+ ms, p99 [\d.]+ ms`, got.out)
	require.Contains(t, got.err, "queue 5 replies", "it shows where it is")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays behind")

	got = try(t, nil, append(args, "-o", "json")...)
	var out struct {
		Throughput struct{ Ratio float64 }
		Dead       struct{ Beside struct{ P99Ms float64 } }
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &out))
	require.Positive(t, out.Throughput.Ratio)
	require.Positive(t, out.Dead.Beside.P99Ms)
}

func TestBenchOutboxSaysWhatToDo(t *testing.T) {
	t.Parallel()
	got := try(t, nil, "bench", "outbox", "--rounds", "0")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--rounds 0: write a number from 1 on")
	got = try(t, nil, "bench", "outbox", "--dir", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "name another with --dir")
}
