package natsserver_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/natsserver"
)

// childDir is the variable that makes this test binary a server process on the
// directory that it names.
const childDir = "BELAY_TEST_CHILD_DIR"

// drained is the exit code of a server process that did its work after SIGTERM.
const drained = 7

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child runs a server until SIGTERM, and then still writes a message a
// hundred times, as a draining belay does.
func child(dir string) int {
	ctx := context.Background()
	s, err := natsserver.Start(ctx, natsserver.Options{Dir: dir, Listen: natsserver.ListenNone})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	nc, err := nats.Connect("", s.ConnectOptions()...)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	js, _ := jetstream.New(nc)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		fmt.Println(err)
		return 1
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("ready")
	<-term
	for range 100 {
		if _, err := js.Publish(ctx, "s", nil); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	nc.Close()
	if err := s.Shutdown(ctx); err != nil {
		return 1
	}
	return drained
}

// startChild starts a server process and waits until it is ready.
func startChild(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}

// Without NoSigs nats-server ends the process at SIGTERM, before it is drained.
func TestSIGTERMIsLeftToTheProcess(t *testing.T) {
	t.Parallel()
	cmd := startChild(t, t.TempDir())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the code says it
	require.Equal(t, drained, cmd.ProcessState.ExitCode())
}

// A killed process gives the directory back at once, and until then its id is
// in the message.
func TestLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Dir: t.TempDir(), Listen: natsserver.ListenNone}
	cmd := startChild(t, o.Dir)
	require.EqualError(t, refused(t, natsserver.ErrDirTaken, o), fmt.Sprintf(
		"storage.dir %s is in use by another belay (process %d): stop that one, or set another storage.dir", o.Dir, cmd.Process.Pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	start(t, o)
}
