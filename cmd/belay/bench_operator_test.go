package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBenchOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"bench", "operator", "--rounds", "1", "--requests", "5", "--raced", "5", "--dir", dir}
	got := try(t, nil, args...)
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^lives +\d+ requests/s \(rounds of 5, proposed to delivered\)$`, got.out)
	require.Regexp(t, `(?m)^race +5 requests by 8 confirmers each: 5 won, 5 POSTs, 5 issues`, got.out)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays behind")

	got = try(t, nil, append(args, "-o", "json")...)
	var out struct {
		Operator struct{ Posts, Issues, Won int }
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &out))
	require.Equal(t, 5, out.Operator.Posts)
}

func TestBenchOperatorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	got := try(t, nil, "bench", "operator", "--raced", "0")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--raced 0: write a number from 1 on")
	got = try(t, nil, "bench", "operator", "--dir", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.err, "name another with --dir")
}
