//go:build ci

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippet is the indented block of the README that begins with a line.
func snippet(t *testing.T, first string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), "\n    "+first)
	require.True(t, ok, "the README has no %q", first)
	out := first
	for line := range strings.Lines(rest) {
		if text, indented := strings.CutPrefix(line, "    "); indented || strings.TrimSpace(line) == "" || out == first {
			out += text
			continue
		}
		return out
	}
	return out
}

// OT-87: what the README says of signatures is what belay asks for, as another
// program in another language finds it.
func TestOT87ReadmeSnippetProposes(t *testing.T) {
	t.Parallel()
	h := newHost(t, "", "")
	h.append("belay.toml", "[operator]\nrepo = \"acme/site\"\n[[operator.keys]]\nid = \"worker\"\nsecret = \""+signSecret+"\"\n")
	h.file("propose.mjs", snippet(t, "import { createHash"))
	p := h.serve()
	run := func(secret string) string {
		node := exec.CommandContext(t.Context(), "node", "propose.mjs", "Fix the door", "It squeaks.")
		node.Dir = h.dir
		node.Env = append(os.Environ(), "BELAY_URL=http://"+h.public, "BELAY_SIGN_KEY=worker", "BELAY_SIGN_SECRET="+secret)
		out, err := node.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	status, body, _ := strings.Cut(run(signSecret), " ")
	require.Equal(t, "201", status, body)
	var got operatorAnswer
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, "ann", got.Task.Owner.Operator)
	require.Contains(t, run("another"), "401 ")

	// And belay's own command line, with the key of the configuration.
	me := []string{"--as", "ann", "--conversation", "c1"}
	require.Contains(t, h.ok(append([]string{"operator", "show", got.Task.ID}, me...)...), "Fix the door")
	out := h.ok(append([]string{"operator", "confirm", got.Task.ID, "--revision", "1"}, me...)...)
	require.Contains(t, out, "Committed")
	require.Contains(t, out, "approved")
	require.Equal(t, exitError, h.try("operator", "show", got.Task.ID, "--as", "bob", "--conversation", "c1").code)
	p.stop()
}
