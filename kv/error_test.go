package kv

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// DESIGN §4: each code of the server is one of the kinds, its cause is kept.
func TestJ15ClassifyEveryCode(t *testing.T) {
	t.Parallel()
	require.NoError(t, classify(nil))
	kinds := []error{ErrNotFound, ErrExists, ErrConflict, ErrFull, ErrTooLarge, ErrUnknown}
	api := func(code jetstream.ErrorCode) error { return &jetstream.APIError{ErrorCode: code, Code: 400} }
	for _, c := range []struct {
		err  error
		want error
	}{
		{api(10071), ErrConflict}, {api(10164), ErrConflict},
		{api(10077), ErrFull}, {api(10023), ErrFull}, {api(10047), ErrFull}, {api(10002), ErrFull},
		{api(10054), ErrTooLarge}, {nats.ErrMaxPayload, ErrTooLarge},
		{api(10037), ErrNotFound}, {jetstream.ErrMsgNotFound, ErrNotFound},
		{api(10158), ErrUnknown}, {api(10008), ErrUnknown}, {api(10059), ErrUnknown}, {api(503), ErrUnknown},
		{nats.ErrTimeout, ErrUnknown}, {nats.ErrNoResponders, ErrUnknown}, {jetstream.ErrNoStreamResponse, ErrUnknown},
		{nats.ErrConnectionClosed, ErrUnknown}, {context.DeadlineExceeded, ErrUnknown}, {context.Canceled, ErrUnknown},
		{errors.New("other"), ErrUnknown},
	} {
		got := classify(fmt.Errorf("wrapped: %w", c.err))
		for _, k := range kinds {
			require.Equal(t, k == c.want, errors.Is(got, k), "%v is %v", c.err, k)
		}
		require.ErrorIs(t, got, c.err, "the cause is kept")
	}
}
