package relay

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
)

// span starts that of one try, in the trace of the record's task; done tells
// what the try came to.
func (r *Relay) span(ctx context.Context, rec *outbox.Record) (sctx context.Context, done func(Answer)) {
	if r.o.Tracer == nil {
		return ctx, func(Answer) {}
	}
	if rec.TaskID != "" {
		ctx = kv.WithTrace(ctx, task.ID(rec.TaskID))
	}
	sctx, s := r.o.Tracer.Start(ctx, "send", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("belay.outbox", string(rec.ID)), attribute.String("belay.task", rec.TaskID),
		attribute.String("belay.channel", rec.Channel), attribute.Int("belay.try", rec.Attempts+1),
	))
	return sctx, func(a Answer) {
		s.SetAttributes(attribute.String("belay.verdict", string(a.Verdict)))
		if a.Verdict != Delivered {
			s.SetStatus(codes.Error, a.Reason)
		}
		s.End()
	}
}
