package kv

import (
	"context"
	"crypto/sha256"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/belay-run/belay/kv/task"
)

// HeaderTraceparent is the W3C trace context of a message. NATS headers are
// case-sensitive; the standard's spelling is the lower-case one.
const HeaderTraceparent = "traceparent"

// TraceID is the id of the one trace of a task: its own id. So every process,
// at any time, knows the trace without anything being kept of it, and a
// person finds it by the task.
func TraceID(id task.ID) trace.TraceID {
	if u, err := uuid.Parse(string(id)); err == nil {
		return trace.TraceID(u)
	}
	sum := sha256.Sum256([]byte(id))
	return trace.TraceID(sum[:16])
}

// RootSpan is the id of the first span of a task's trace, that of the request
// which brought the webhook; the others are below it.
func RootSpan(id task.ID) trace.SpanID {
	sum := sha256.Sum256([]byte("root\n" + id))
	return trace.SpanID(sum[:8])
}

// WithTrace returns a context in which spans belong to a task's trace, right
// below its root.
func WithTrace(ctx context.Context, id task.ID) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: TraceID(id), SpanID: RootSpan(id), TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

type rootKey struct{}

// WithRoot returns a context in which the next root span is that of a task's
// trace; RootOf says of which one.
func WithRoot(ctx context.Context, id task.ID) context.Context {
	return context.WithValue(ctx, rootKey{}, id)
}

// RootOf returns the task whose root span is to be started, if any.
func RootOf(ctx context.Context) (task.ID, bool) {
	id, ok := ctx.Value(rootKey{}).(task.ID)
	return id, ok
}

// Traceparent is the W3C header for what continues ctx's span; "" if that is
// not recorded.
func Traceparent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}
