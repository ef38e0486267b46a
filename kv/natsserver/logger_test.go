package natsserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestLogger returns a logger on a clock that the test moves, and its
// output.
func newTestLogger() (*logger, *bytes.Buffer, *time.Time) {
	out := &bytes.Buffer{}
	now := time.Unix(0, 0)
	h := slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	return newLogger(slog.New(h), func() time.Time { return now }), out, &now
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	l, out, _ := newTestLogger()
	l.Noticef("Server is ready")
	l.Debugf("d %d", 1)
	l.Tracef("t\n two")
	l.Warnf("w")
	l.Errorf("e %s", "x")
	require.Equal(t, `level=DEBUG msg="Server is ready"
level=DEBUG msg="d 1"
level=DEBUG msg="t two"
level=WARN msg=w
level=ERROR msg="e x"
`, out.String())
}

func TestRepeatedErrorsAreLoggedOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	l, out, now := newTestLogger()
	for i := range 100 {
		l.Errorf("Error writing block %d: %v", i, "full")
	}
	l.Errorf("Another class %d", 1)
	*now = now.Add(logEvery - 1)
	l.Errorf("Error writing block %d: %v", 100, "full")
	*now = now.Add(1)
	l.Errorf("Error writing block %d: %v", 101, "full")
	*now = now.Add(logEvery)
	l.Errorf("Error writing block %d: %v", 102, "full")
	require.Equal(t, `level=ERROR msg="Error writing block 0: full"
level=ERROR msg="Another class 1"
level=ERROR msg="Error writing block 101: full" omitted=100
level=ERROR msg="Error writing block 102: full"
`, out.String())
}

// nats-server formats many errors as "%s - %s"; those are told apart by what
// they say.
func TestFormatsWithoutWordsAreNoClass(t *testing.T) {
	t.Parallel()
	l, out, _ := newTestLogger()
	l.Errorf("%s - %s", "cid:1", "one")
	l.Errorf("%s - %s", "cid:1", "two")
	l.Errorf("%s - %s", "cid:1", "two")
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}

func TestClassesAreBounded(t *testing.T) {
	t.Parallel()
	l, _, _ := newTestLogger()
	for i := range 10 * maxClasses {
		l.Errorf("%s", fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(l.classes), maxClasses)
}

func TestFirstFatalErrorIsKept(t *testing.T) {
	t.Parallel()
	l, out, _ := newTestLogger()
	l.Fatalf("Can't start %s", "one")
	l.Fatalf("Can't start %s", "two")
	require.Equal(t, "Can't start one", <-l.fatal)
	require.Contains(t, out.String(), "Can't start one")
}
