package outbox

import (
	"fmt"
	"time"
)

// Resolution is what a person decides of a record whose outcome is unknown.
type Resolution string

// The resolutions.
const (
	// ResolveDelivered: the recipient has it.
	ResolveDelivered Resolution = "delivered"
	// ResolveFailed: the recipient does not have it, and shall not get it.
	ResolveFailed Resolution = "failed"
	// ResolveResend: it shall be sent once more, as a new record.
	ResolveResend Resolution = "resend"
)

// Settlement is how a person resolved a record.
type Settlement struct {
	How    Resolution `json:"how"`
	Reason string     `json:"reason"`
	By     string     `json:"by,omitempty"`
	At     Time       `json:"at"`
}

// Resolve settles a record whose outcome is unknown; a reason is needed. next
// is the id of the record that a resend will make.
func (r Record) Resolve(s Settlement, next ID) (Record, error) {
	if s.Reason == "" {
		return r, fmt.Errorf("%w: resolve needs a reason", ErrInvalid)
	}
	to := Failed
	switch s.How {
	case ResolveDelivered:
		to = Delivered
	case ResolveResend:
		if next == "" {
			return r, fmt.Errorf("%w: resend needs an id", ErrInvalid)
		}
	case ResolveFailed:
	default:
		return r, fmt.Errorf("%w: resolution %q", ErrInvalid, s.How)
	}
	if r.Status == Delivering && !r.Unknown(s.At.Time) {
		return r, fmt.Errorf("resolve a record that is being sent: %w", ErrState)
	}
	n := r
	if err := n.move(MoveResolve, to, s.At.Time); err != nil {
		return r, err
	}
	s.Reason = cut(s.Reason, MaxText)
	n.Resolved, n.NotBefore = &s, Time{}
	if to == Delivered {
		n.LastError = ""
	} else if n.LastError == "" {
		n.LastError = s.Reason
	}
	if s.How == ResolveResend {
		n.LinkedTo = next
	}
	return n, nil
}

// Resend is the new pending record that a resolution by resend asks for.
func (r *Record) Resend(at time.Time) Record {
	return Record{
		V: Version, ID: r.LinkedTo, Channel: r.Channel, To: r.To, TaskID: r.TaskID, SessionID: r.SessionID, Index: r.Index,
		Payload: r.Payload, Status: Pending, ResendOf: r.Key(), InstallationID: r.InstallationID, Repo: r.Repo,
		CreatedAt: At(at), UpdatedAt: At(at),
	}
}
