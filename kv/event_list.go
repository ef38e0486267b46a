package kv

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv/operator"
)

// ConsumerIssues is the durable of stream OPERATOR that wakes the creation of
// issues.
const ConsumerIssues = "issues"

// OperatorRequest names a request, and says how many events it has.
type OperatorRequest struct {
	Tenant string
	ID     operator.RequestID
	Events int
}

// Requests lists every request that was ever proposed.
func (s *EventStore) Requests(ctx context.Context) ([]OperatorRequest, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(operator.SubjectPrefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list requests: %w", classify(err))
	}
	out := make([]OperatorRequest, 0, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		if tenant, id, ok := ParseOperatorSubject(subject); ok {
			out = append(out, OperatorRequest{Tenant: tenant, ID: id, Events: int(n)}) //nolint:gosec // at most six
		}
	}
	return out, nil
}

// ParseOperatorSubject reads what OperatorSubject wrote.
func ParseOperatorSubject(subject string) (tenant string, id operator.RequestID, ok bool) {
	rest, ok := strings.CutPrefix(subject, operator.SubjectPrefix)
	if !ok {
		return "", "", false
	}
	tenant, last, ok := strings.Cut(rest, ".")
	if !ok || tenant == "" {
		return "", "", false
	}
	id, err := operator.ParseRequestID(last)
	return tenant, id, err == nil && OperatorSubject(tenant, id) == subject
}
