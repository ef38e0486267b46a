package consumers

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// span starts a span below ctx's; without a tracer there is none, and done
// does nothing.
func span(ctx context.Context, t trace.Tracer, name string, attrs ...attribute.KeyValue) (sctx context.Context, done func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	sctx, s := t.Start(ctx, name, trace.WithAttributes(attrs...))
	return sctx, func(err error) {
		if err != nil {
			s.RecordError(err)
			s.SetStatus(codes.Error, "")
		}
		s.End()
	}
}

// admitSpan is that of an admission, in the task's trace.
func (a *Admitter) admitSpan(ctx context.Context, d *task.Delivery, seq uint64) (sctx context.Context, done func(error)) {
	if a.tracer == nil || d.Task == nil {
		return ctx, func(error) {}
	}
	return span(kv.WithTrace(ctx, d.Task.ID), a.tracer, "admit",
		attribute.String("belay.task", string(d.Task.ID)), attribute.Int64("messaging.sequence", int64(seq)))
}

// runSpan is that of an attempt, in the task's trace; done tells how it ended.
func (w *Worker) runSpan(ctx context.Context, r *run) (sctx context.Context, done func(ending, task.Record, error)) {
	if w.o.Tracer == nil {
		return ctx, func(ending, task.Record, error) {}
	}
	rec := &r.record
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("belay.task", string(r.id)), attribute.Int("belay.attempt", r.holder.N), attribute.String("belay.kind", string(rec.Kind.Name)),
			attribute.String("belay.familiar", rec.FamiliarID), attribute.String("belay.repo", rec.Repo), attribute.String("belay.worker", w.o.Name),
		),
	}
	if open := rec.Open(); open != nil {
		opts = append(opts, trace.WithTimestamp(open.StartedAt.Time))
	}
	sctx, s := w.o.Tracer.Start(kv.WithTrace(ctx, r.id), "run", opts...)
	return sctx, func(e ending, end task.Record, err error) {
		outcome := e.Outcome
		if n := len(end.AttemptLog); n > 0 {
			outcome = end.AttemptLog[n-1].Outcome // as the record has it
		}
		s.SetAttributes(attribute.String("belay.outcome", string(outcome)), attribute.String("belay.state", string(end.State)))
		if err != nil {
			s.RecordError(err)
		}
		if err != nil || outcome != task.OutcomeCompleted {
			s.SetStatus(codes.Error, e.Detail)
		}
		s.End()
	}
}

// runCommand runs a task's command in a span of its own, which it is told of.
func (w *Worker) runCommand(ctx context.Context, job executor.Job) executor.Report {
	ctx, done := span(ctx, w.o.Tracer, "command")
	job.Traceparent = kv.Traceparent(ctx)
	rep := w.o.Runner.Run(ctx, job)
	done(rep.Err)
	return rep
}
