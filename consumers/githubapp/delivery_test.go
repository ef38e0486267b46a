package githubapp

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/consumers/githubapp/githubtest"
)

// TestAPayloadIsReadWithItsHeaders, for as long as GitHub keeps it.
func TestAPayloadIsReadWithItsHeaders(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.AddDelivery(githubtest.Delivery{
		GUID: "g1", Event: "issues", Action: "labeled", InstallationID: 10, StatusCode: 200,
		Headers: map[string]string{"X-GitHub-Event": "issues"}, Payload: json.RawMessage(`{"action":"labeled"}`),
	})
	p, err := k.client.HookPayload(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "g1", p.GUID)
	require.True(t, p.OK())
	require.Equal(t, "issues", p.Header("x-github-event"))
	require.JSONEq(t, `{"action":"labeled"}`, string(p.Payload))
	k.clock.Advance(73 * time.Hour)
	_, err = k.client.HookPayload(t.Context(), id)
	require.ErrorIs(t, err, ErrNotFound)
}

// TestAnAnswerThatIsTooLargeIsNotReadThrough: memory is bounded.
func TestAnAnswerThatIsTooLargeIsNotReadThrough(t *testing.T) {
	t.Parallel()
	// It is about the size: to make so large an answer takes long under the race detector.
	k := newKit(t, func(_ *githubtest.Options, o *Options) { o.Timeout = 5 * time.Minute })
	payload := append(append([]byte(`"`), bytes.Repeat([]byte("x"), maxAnswer)...), '"')
	id := k.AddDelivery(githubtest.Delivery{GUID: "g1", Payload: payload})
	_, err := k.client.HookPayload(t.Context(), id)
	require.ErrorContains(t, err, "too large")
}

// TestX08WhatCanWaitLeavesATenthOfTheRequests to what cannot.
func TestX08WhatCanWaitLeavesATenthOfTheRequests(t *testing.T) {
	t.Parallel()
	k := newKit(t, func(so *githubtest.Options, _ *Options) { so.AppRateLimit = 20 })
	for range 18 {
		require.NoError(t, k.client.Spare())
		_, _, err := k.client.HookDeliveries(t.Context(), "")
		require.NoError(t, err)
	}
	require.NoError(t, k.client.Spare(), "2 of 20 are a tenth")
	_, _, err := k.client.HookDeliveries(t.Context(), "")
	require.NoError(t, err)
	var limit *RateLimitError
	require.ErrorAs(t, k.client.Spare(), &limit)
	require.WithinDuration(t, k.clock.Now().Add(time.Hour), limit.Until, time.Minute)
	_, _, err = k.client.HookDeliveries(t.Context(), "")
	require.NoError(t, err, "what cannot wait is let through")
	require.ErrorIs(t, k.client.Spare(), ErrRateLimited, "parked: none is left")
	k.clock.Advance(time.Hour + time.Second)
	require.NoError(t, k.client.Spare())
}
