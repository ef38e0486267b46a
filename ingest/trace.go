package ingest

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv"
)

// traced makes the span of a webhook that was answered, and of its message.
// That of a webhook with a task is the root of the task's trace. The door is
// public: a trace that the request names is linked, and not believed.
func (s *Server) traced(r *http.Request, acc *kv.Accepted, started, stored time.Time, err error) {
	if s.o.Tracer == nil {
		return
	}
	d := &acc.Delivery
	ctx := context.Background()
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(started), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path),
			attribute.String("github.delivery", string(d.ID)), attribute.String("github.event", d.Event), attribute.String("github.action", d.Action),
			attribute.String("belay.routing", string(d.Routing)), attribute.Bool("belay.duplicate", acc.Duplicate),
		),
	}
	carrier := propagation.HeaderCarrier(r.Header)
	if remote := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, carrier)); remote.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: remote}))
	}
	if id, ok := d.Routing.Task(); ok && acc.Duplicate {
		ctx = kv.WithTrace(ctx, id)
	} else if ok {
		ctx = kv.WithRoot(ctx, id)
	}
	ctx, span := s.o.Tracer.Start(ctx, "POST /webhook", opts...)
	if !stored.IsZero() {
		_, pub := s.o.Tracer.Start(ctx, "publish WEBHOOKS", trace.WithTimestamp(stored), trace.WithSpanKind(trace.SpanKindProducer))
		pub.SetAttributes(attribute.Int64("messaging.sequence", int64(acc.Seq)))
		failed(pub, err)
		pub.End(trace.WithTimestamp(s.o.Now()))
	}
	failed(span, err)
	span.End(trace.WithTimestamp(s.o.Now()))
}

func failed(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, answerOf(err).text)
	}
}
