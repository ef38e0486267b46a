package deploytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// stopTakes is what a stop of belay may take: the default drain_timeout and a
// minute beyond it.
const stopTakes = 80 * time.Second

// top is the top of the repository.
const top = "../.."

func TestDockerfile(t *testing.T) {
	text, err := os.Open(filepath.Join(top, "deploy", "Dockerfile"))
	require.NoError(t, err)
	defer text.Close()
	ast, err := parser.Parse(text)
	require.NoError(t, err)
	require.Empty(t, ast.Warnings)
	var warnings []string
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	stages, _, err := instructions.Parse(ast.AST, lint)
	require.NoError(t, err)
	require.Empty(t, warnings)
	for _, s := range stages[1:] { // all but the one that builds
		var user, stop, entry string
		for _, c := range s.Commands {
			switch c := c.(type) {
			case *instructions.UserCommand:
				user = c.User
			case *instructions.StopSignalCommand:
				stop = c.Signal
			case *instructions.EntrypointCommand:
				require.False(t, c.PrependShell, "a shell would take the signals")
				entry = c.CmdLine[0]
			}
		}
		require.Equal(t, [3]string{"65532:65532", "SIGTERM", "/usr/local/bin/belay"}, [3]string{user, stop, entry}, s.Name)
	}
}

// project loads a Compose file as `docker compose` does, schema included.
func project(t *testing.T, name string) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(top, "deploy", name)}, cli.WithEnv(passwords()))
	require.NoError(t, err)
	p, err := o.LoadProject(context.Background())
	require.NoError(t, err)
	return p
}

// passwords are the variables that the cluster's file wants.
func passwords() (env []string) {
	for _, user := range []string{"", "INGEST_", "OPERATOR_", "WORKER_", "RELAY_", "VIEWER_"} {
		env = append(env, "BELAY_NATS_"+user+"PASSWORD=b0123456789abcdef")
	}
	return env
}

// DT-14, DT-22: one container, one named volume, and nothing else that is kept.
func TestDT22ComposeShipsANamedVolume(t *testing.T) {
	p := project(t, "compose.yaml")
	require.Len(t, p.Services, 1)
	require.Len(t, p.Volumes, 1)
	require.Equal(t, "belay-data", p.Volumes["data"].Name)
	s := p.Services["belay"]
	require.Len(t, s.Volumes, 1)
	require.Equal(t, types.VolumeTypeVolume, s.Volumes[0].Type)
	require.Equal(t, "/data", s.Volumes[0].Target)
	hardened(t, s)
	for _, port := range s.Ports {
		require.Equal(t, "127.0.0.1", port.HostIP, "nothing is published to the network")
	}
}

func TestComposeCluster(t *testing.T) {
	p := project(t, "compose.cluster.yaml")
	roles := map[string]int{}
	for name, s := range p.Services {
		if s.Build == nil {
			roles["nats"]++
			require.Equal(t, name, *s.Environment["NATS_NAME"])
			mounted := map[string]bool{}
			for _, v := range s.Volumes {
				mounted[v.Target] = v.Type != types.VolumeTypeVolume || p.Volumes[v.Source].Name != ""
			}
			require.True(t, mounted["/data"], "%s keeps its records in a volume", name)
			require.True(t, mounted["/etc/nats/nats/users.conf"], "what nats.conf includes")
			continue
		}
		role := s.Command[len(s.Command)-1]
		roles[role]++
		user := map[string]string{"apply": "belay", "ingest": "ingest", "worker": "worker", "relay": "relay"}[role]
		for _, server := range []string{"nats-0", "nats-1", "nats-2"} {
			require.Contains(t, *s.Environment["BELAY_NATS_URL"], "nats://"+user+":b0123456789abcdef@"+server+":4222")
		}
		if role == "worker" || role == "relay" {
			require.Empty(t, s.Secrets, "%s holds no webhook secret", name)
		}
		hardened(t, s)
	}
	require.Equal(t, map[string]int{"nats": 3, "apply": 1, "ingest": 2, "worker": 2, "relay": 1}, roles)
}

// hardened requires what a service of belay has in each file, and that it starts
// with a configuration that belay takes.
func hardened(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	require.True(t, s.ReadOnly)
	require.Equal(t, []string{"ALL"}, s.CapDrop)
	require.Contains(t, s.SecurityOpt, "no-new-privileges:true")
	require.Greater(t, time.Duration(*s.StopGracePeriod), stopTakes)
	require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = *value
	}
	for _, secret := range s.Secrets {
		require.Contains(t, env["BELAY_GITHUB_WEBHOOK_SECRET_FILES"]+" "+env["BELAY_API_SERVICE_TOKEN_FILE"], "/run/secrets/"+secret.Source)
	}
	if n := len(s.Command); n > 2 {
		env["BELAY_SERVER_ROLE"] = s.Command[n-1]
	}
	accepted(t, env, "")
}

// accepted runs `belay config print` with what a container would have: the
// variables of the image and of the file, secrets in files, and a belay.toml.
func accepted(t *testing.T, env map[string]string, config string) {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	all := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "BELAY_STORAGE_DIR=" + dir, "BELAY_SERVER_LISTEN=0.0.0.0:3000",
		"BELAY_SERVER_ADMIN_LISTEN=0.0.0.0:9464", "BELAY_API_MODE=token",
	}
	for name, value := range env {
		switch {
		case strings.HasSuffix(name, "_FILE"), strings.HasSuffix(name, "_FILES"):
			value = secret
		case name == "BELAY_CONFIG":
			value = filepath.Join(dir, "belay.toml")
			require.NoError(t, os.WriteFile(value, []byte(config), 0o600))
		}
		all = append(all, name+"="+value)
	}
	for _, args := range [][]string{{"config", "print"}, {"doctor"}} {
		cmd := exec.Command(belay(t), args...)
		cmd.Dir, cmd.Env = dir, all
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
}

var built string

// belay builds the binary once.
func belay(t *testing.T) string {
	t.Helper()
	if built == "" {
		built = filepath.Join(os.TempDir(), "belay-deploytest", "belay")
		cmd := exec.Command("go", "build", "-o", built, "./cmd/belay")
		cmd.Dir = top
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	return built
}
