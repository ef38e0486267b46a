package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracingRules(t *testing.T) {
	t.Parallel()
	c, err := load(t, minimal+"[tracing]\nendpoint = \"https://u:hunter2@otel.example/base\"\nsample_percent = 5\n")
	require.NoError(t, err)
	require.Equal(t, Tracing{Endpoint: "https://u:hunter2@otel.example/base", SamplePercent: 5}, c.Tracing)
	require.NotContains(t, printed(t, c), "hunter2")
	for text, want := range map[string]string{
		`endpoint = "otel.example:4318"`: `tracing.endpoint = "otel.example:4318": is not an http address: write one such as "http://127.0.0.1:4318"`,
		`endpoint = "grpc://otel:4317"`:  "is not an http address",
		`endpoint = "http://"`:           "is not an http address",
		"sample_percent = 101":           "tracing.sample_percent = 101",
		"sample_percent = -1":            "tracing.sample_percent = -1",
		"ratio = 1":                      "tracing.ratio: unknown key",
	} {
		require.Contains(t, strings.Join(problemsOf(t, minimal+"[tracing]\n"+text+"\n"), "\n"), want, text)
	}
}
