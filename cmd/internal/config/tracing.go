package config

import "net/url"

// Tracing says where the spans of tasks are sent. The standard variables of
// OpenTelemetry for the OTLP exporter (OTEL_EXPORTER_OTLP_…) hold beside it.
type Tracing struct {
	// Endpoint is the base of a collector that takes OTLP over HTTP, such as
	// http://127.0.0.1:4318; empty for none.
	Endpoint string `toml:"endpoint" hide:"user"`
	// SamplePercent is how many of a hundred tasks are traced; a task is
	// traced whole, by every process, or not at all.
	SamplePercent int `toml:"sample_percent" default:"100" min:"0" max:"100"`
}

func (c *Config) validateTracing(p *problems) {
	const key = "tracing.endpoint"
	if c.Tracing.Endpoint == "" || !p.ok(key) {
		return
	}
	u, err := url.Parse(c.Tracing.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		p.add(key, quote(hideUser(c.Tracing.Endpoint)), "is not an http address", `write one such as "http://127.0.0.1:4318"`)
	}
}
