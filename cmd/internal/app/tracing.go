package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// tracesPath is where a collector takes spans, below its base.
const tracesPath = "/v1/traces"

// traceFlush bounds what a stop waits for a collector.
const traceFlush = 2 * time.Second

// startTracing sends spans to the configured collector. What a collector does
// not take is dropped and logged: it never holds up a task.
func (a *App) startTracing(ctx context.Context) error {
	exporter := a.o.SpanExporter
	if exporter == nil {
		var err error
		if exporter, err = a.collector(ctx); exporter == nil || err != nil {
			return err
		}
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(quiet{exporter, a.log}), sdk.WithIDGenerator(taskIDs{}), sdk.WithSampler(sampler{percent: uint64(a.o.Config.Tracing.SamplePercent)}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "belay"), attribute.String("service.version", a.o.Version),
			attribute.String("service.instance.id", string(a.o.Boot)), attribute.String("host.name", a.o.Config.Worker.Name),
		)),
	)
	a.tracer = provider.Tracer("github.com/belay-run/belay")
	a.cleanups.push("tracing", func(context.Context) error {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			a.log.Warn("last spans were not sent", "err", err)
		}
		return nil
	})
	return nil
}

// collector is the configured one, nil if there is none.
func (a *App) collector(ctx context.Context) (sdk.SpanExporter, error) {
	var opts []otlptracehttp.Option
	switch to := a.o.Config.Tracing.Endpoint; {
	case to != "":
		opts = append(opts, otlptracehttp.WithEndpointURL(strings.TrimSuffix(to, "/")+tracesPath))
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w; next: check [tracing] endpoint and the OTEL_EXPORTER_OTLP_… variables", err)
	}
	return exporter, nil
}

// traceMessages names its trace on each task's message, for others that read
// the stream.
func (a *App) traceMessages() {
	if a.tracer == nil {
		return
	}
	s := sampler{percent: uint64(a.o.Config.Tracing.SamplePercent)}
	a.deliv.Traceparent = func(id task.ID) string {
		if !s.takes(kv.TraceID(id)) {
			return ""
		}
		return kv.Traceparent(kv.WithTrace(context.Background(), id))
	}
}

// quiet logs what a collector does not take, in belay's own way, instead of
// giving it to the process-wide handler of the library.
type quiet struct {
	sdk.SpanExporter
	log *slog.Logger
}

func (q quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.log.Warn("collector does not take the spans, they are dropped", "class", "tracing", "spans", len(spans), "err", err)
	}
	return nil
}

// taskIDs gives the first span of a task's trace the ids that every process
// can tell from the task, and all others random ones.
type taskIDs struct{}

func (taskIDs) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if id, ok := kv.RootOf(ctx); ok {
		return kv.TraceID(id), kv.RootSpan(id)
	}
	_, _ = rand.Read(t[:])
	_, _ = rand.Read(s[:])
	return t, s
}

func (taskIDs) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}

// sampler takes a share of the traces by their ids, so that all processes take
// the same ones. It looks at the last seven bytes, which are random in a
// task's id too.
type sampler struct{ percent uint64 }

func (s sampler) takes(id trace.TraceID) bool {
	const all = uint64(1) << 56
	return binary.BigEndian.Uint64(id[8:])%all < all/100*s.percent || s.percent >= 100
}

func (s sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	r := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if s.takes(p.TraceID) {
		r.Decision = sdk.RecordAndSample
	}
	return r
}

func (s sampler) Description() string { return fmt.Sprintf("belay %d%% of tasks", s.percent) }
