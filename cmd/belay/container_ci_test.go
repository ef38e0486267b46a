//go:build ci && linux

package main

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natstest"
)

// stage is one FROM of a Dockerfile: its instructions in order.
type stage struct {
	name  string
	steps [][2]string // instruction, rest of the line
}

// dockerfile reads the stages of deploy/Dockerfile; .ci/deploy has it parsed by
// BuildKit, too.
func dockerfile(t *testing.T) []stage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Dockerfile"))
	require.NoError(t, err)
	comments := regexp.MustCompile(`(?m)^\s*#.*\n`)
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(comments.ReplaceAllString(string(text), ""), " ")
	var stages []stage
	for line := range strings.Lines(joined) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "":
		case word == "FROM":
			f := strings.Fields(rest)
			stages = append(stages, stage{name: f[len(f)-1]})
		default:
			s := &stages[len(stages)-1]
			s.steps = append(s.steps, [2]string{word, rest})
		}
	}
	require.NotEmpty(t, stages)
	return stages
}

// all returns what an instruction says in a stage, in order.
func (s stage) all(word string) (out []string) {
	for _, step := range s.steps {
		if step[0] == word {
			out = append(out, step[1])
		}
	}
	return out
}

// argv reads an instruction in its JSON form.
func (s stage) argv(t *testing.T, word string) (out []string) {
	t.Helper()
	all := s.all(word)
	require.Len(t, all, 1, word)
	require.NoError(t, json.Unmarshal([]byte(all[0]), &out))
	return out
}

// buildRoot runs the RUN lines of the stage that builds, with their folders
// inside a folder of the test's, and returns the root of the image.
func buildRoot(t *testing.T, build stage) string {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, os.Chmod(out, 0o755))
	for _, run := range build.all("RUN") {
		if strings.HasPrefix(run, "go mod download") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", strings.ReplaceAll(run, "/out/", out+"/"))
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "VERSION=v9.8.7")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", run, said)
	}
	return filepath.Join(out, "root")
}

// DT-14: one container, one volume. Without an engine the test does what one does:
// the image's root, read-only, as the image's user, without privileges, as
// process 1 of a namespace; only the volume can be written.
func TestDT14OneContainerOneVolume(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	image := stages[len(stages)-1]
	require.Equal(t, "belay", image.name, "the last stage is what is built by default")
	root := buildRoot(t, stages[0])
	static(t, filepath.Join(root, "usr", "local", "bin", "belay"))
	require.Equal(t, []string{"/data"}, image.all("VOLUME"))
	uid, gid, _ := strings.Cut(image.all("USER")[0], ":")
	require.NotEqual(t, "0", uid)

	h := newHost(t, "", "")
	data := filepath.Join(h.dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	h.volume(data, uid, gid)
	serve := h.container(t, image, root, uid, gid)
	p := h.contained(serve)
	natstest.Eventually(t, "serve to be ready", func() bool {
		select {
		case <-p.done:
			require.Fail(t, "serve ended", "%s", p.out)
		default:
		}
		return h.get("/readyz") == http.StatusOK
	})
	require.Equal(t, http.StatusUnauthorized, h.get("/api/github/tasks"), "a token is asked for, from loopback too")
	h.client.token = containerToken
	id := h.accept(1)
	h.await(id, "done")
	require.NoDirExists(t, filepath.Join(root, "data", "jetstream"), "nothing is kept beside the volume")
	require.DirExists(t, filepath.Join(data, "jetstream"))

	// What the image checks itself by, and what stops it.
	health := image.all("HEALTHCHECK")[0]
	var probe []string
	require.NoError(t, json.Unmarshal([]byte(health[strings.Index(health, "["):]), &probe))
	require.Equal(t, image.argv(t, "ENTRYPOINT")[0], probe[0])
	h.environ = []string{"BELAY_SERVER_LISTEN=" + h.public}
	require.Equal(t, `{"ok":true}`, strings.TrimSpace(h.ok(probe[1:]...)))
	require.Equal(t, []string{"SIGTERM"}, image.all("STOPSIGNAL"))
	h.inside(p, syscall.SIGTERM)
	require.Equal(t, exitOK, p.exit(), "%s", p.out)
	require.Equal(t, exitError, h.try(probe[1:]...).code, "one that is gone is not well")

	// The next container finds what the volume has.
	p = h.contained(h.container(t, image, root, uid, gid))
	natstest.Eventually(t, "serve to be ready again", func() bool { return h.get("/readyz") == http.StatusOK })
	require.Equal(t, "done", h.show(id).Status)
	h.inside(p, syscall.SIGTERM)
	require.Equal(t, exitOK, p.exit(), "%s", p.out)
}

// containerToken is for the API of a container.
const containerToken = "a-service-token-of-some-length"

// volume gives the data folder to the image's user, and puts a nats.conf with
// the test's port there, and a familiar: outside of a container the usual one may be taken.
func (h *host) volume(data, uid, gid string) {
	h.t.Helper()
	conf, err := os.ReadFile(filepath.Join(h.dir, "nats.conf"))
	require.NoError(h.t, err)
	require.NoError(h.t, os.WriteFile(filepath.Join(data, "nats.conf"), conf, 0o644))
	familiar := "[[familiars]]\nid = \"cody\"\nbot_username = \"coven-cody[bot]\"\ntrigger_labels = [\"bug\"]\n"
	require.NoError(h.t, os.WriteFile(filepath.Join(data, "belay.toml"), []byte(familiar), 0o644))
	out, err := exec.CommandContext(h.t.Context(), "chown", uid+":"+gid, data).CombinedOutput()
	require.NoError(h.t, err, "%s", out)
}

// container runs the image's entry point as an engine would.
func (h *host) container(t *testing.T, image stage, root, uid, gid string) *exec.Cmd {
	t.Helper()
	enter := strings.Join([]string{
		`mount --bind "$1" "$1"`, `mkdir -p "$1/proc" "$1/dev"`, `mount --rbind /dev "$1/dev"`, `mount -t proc none "$1/proc"`,
		`mount --bind data "$1/data"`, `mount -o remount,ro,bind "$1"`,
		`root=$1 user=$2; shift 2; exec setpriv --no-new-privs chroot --userspec="$user" "$root" "$@"`,
	}, " && ")
	args := append([]string{"--pid", "--fork", "--kill-child", "--mount", "/bin/sh", "-c", enter, "sh", root, uid + ":" + gid}, image.argv(t, "ENTRYPOINT")...)
	cmd := exec.Command("unshare", append(args, image.argv(t, "CMD")...)...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, env := range image.all("ENV") {
		cmd.Env = append(cmd.Env, strings.Fields(env)...)
	}
	cmd.Env = append(cmd.Env, "BELAY_SERVER_LISTEN="+h.public, "BELAY_SERVER_ADMIN_LISTEN="+h.admin, "BELAY_NATS_CONFIG=/data/nats.conf", "BELAY_CONFIG=/data/belay.toml",
		"BELAY_API_SERVICE_TOKEN="+containerToken, "BELAY_GITHUB_WEBHOOK_SECRETS="+hostSecret)
	return cmd
}

// contained runs what makes a namespace, and ends all in it with the test.
func (h *host) contained(cmd *exec.Cmd) *process {
	h.t.Helper()
	p := h.run(cmd)
	h.t.Cleanup(func() {
		if pid, err := first(p); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return p
}

// first is the process that is number 1 in the namespace that a process made.
func first(p *process) (pid int, err error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(children), &pid)
	}
	return pid, err
}

// inside sends a signal to it.
func (h *host) inside(p *process, s syscall.Signal) {
	h.t.Helper()
	pid, err := first(p)
	require.NoError(h.t, err)
	require.NoError(h.t, syscall.Kill(pid, s))
}

// static requires a program that needs no file of the system's.
func static(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	libs, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libs)
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "it wants a dynamic linker")
	}
}
