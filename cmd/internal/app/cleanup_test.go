package app

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCleanupsRunLastInFirstOut(t *testing.T) {
	t.Parallel()
	var ran []string
	var c cleanups
	broken := errors.New("broken")
	for _, name := range []string{"server", "connection", "worker"} {
		c.push(name, func(context.Context) error {
			ran = append(ran, name)
			if name == "server" {
				return nil
			}
			return broken
		})
	}
	err := c.run(t.Context(), slog.New(slog.DiscardHandler))
	require.Equal(t, []string{"worker", "connection", "server"}, ran, "a failing step stops none of those below it")
	require.EqualError(t, err, "stop worker: broken\nstop connection: broken")
	require.ErrorIs(t, err, broken)

	require.NoError(t, c.run(t.Context(), slog.New(slog.DiscardHandler)), "each runs once")
	require.Len(t, ran, 3)
}

func TestStopWithoutStart(t *testing.T) {
	t.Parallel()
	a, err := New(newRig(t).opts)
	require.NoError(t, err)
	require.NoError(t, a.Stop(t.Context()))
}

func TestNewNeedsConfigAndLogger(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"config": func(o *Options) { o.Config = nil },
		"logger": func(o *Options) { o.Logger = nil },
	} {
		o := newRig(t).opts
		change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, name)
	}
}
