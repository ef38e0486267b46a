package kv

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestReadAck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]jetstream.PubAck{
		`{"stream":"S","seq":7}`:                                   {Stream: "S", Sequence: 7},
		`{"stream":"S", "seq":7, "duplicate":true}`:                {Stream: "S", Sequence: 7, Duplicate: true},
		`{"stream":"S","domain":"hub","seq":18446744073709551615}`: {Stream: "S", Domain: "hub", Sequence: 1<<64 - 1},
	} {
		got, err := readAck([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, code := range map[string]jetstream.ErrorCode{
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`: codeWrongLastSequence,
		`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"S","seq":0}`: codeStoreFull,
	} {
		_, err := readAck([]byte(text))
		var api *jetstream.APIError
		require.ErrorAs(t, err, &api, text)
		require.Equal(t, code, api.ErrorCode)
	}
	for _, text := range []string{``, `{}`, `{"seq":7}`, `{"stream":"","seq":7}`, `{"stream":"S","seq":-1}`, `+OK`, `{"stream":"S","seq":7`} {
		_, err := readAck([]byte(text))
		require.Error(t, err, text)
		require.ErrorIs(t, classify(err), ErrUnknown, "whatever it means, it is not known what was stored")
	}
}
