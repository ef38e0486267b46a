package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// ID names a record: `<task id>-<n>` for a derived one, else a UUID.
type ID string

// Version is the newest shape of a record that this belay knows.
const Version = 1

// Lease is how long after its last sign of life a claim counts as worked on;
// after that its outcome is unknown.
const Lease = 2 * time.Minute

// Bounds of a record's parts, in bytes.
const (
	MaxID      = 128
	MaxName    = 2 << 10 // channel, recipient, repository
	MaxText    = 2 << 10 // last error, reason
	MaxPayload = 384 << 10
)

// ErrInvalid means that a record cannot be written as it is.
var ErrInvalid = errors.New("record is not valid")

// Claim says who won the right to send.
type Claim struct {
	Nonce string `json:"nonce"`
	Boot  string `json:"boot"`
	At    Time   `json:"claimed_at"`
}

// Record is one message to a recipient outside, and what decides whether it is
// sent (OB-12). It is one value of bucket STATE under outbox.<id>, JSON.
type Record struct {
	V         int    `json:"v"`
	ID        ID     `json:"id"`
	Channel   string `json:"channel"`
	To        string `json:"to"`
	TaskID    string `json:"task_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Index orders the records of one task, channel and recipient.
	Index int `json:"index"`
	// Payload is what the channel sends: JSON that nobody else interprets.
	Payload  json.RawMessage `json:"payload"`
	Status   Status          `json:"status"`
	Attempts int             `json:"attempts"`
	// LastError is the recipient's answer to the last try, redacted.
	LastError string `json:"last_error,omitempty"`
	Claim     Claim  `json:"claim,omitzero"`
	// NotBefore is when the holder of the claim tries again.
	NotBefore Time `json:"not_before,omitzero"`
	// LinkedTo is the record that this one was resent as; ResendOf, on that
	// one, is the first record of the chain.
	LinkedTo       ID          `json:"linked_to,omitempty"`
	ResendOf       ID          `json:"resend_of,omitempty"`
	Resolved       *Settlement `json:"resolved,omitempty"`
	InstallationID int64       `json:"installation_id"`
	Repo           string      `json:"repo,omitempty"`
	CreatedAt      Time        `json:"created_at"`
	UpdatedAt      Time        `json:"updated_at"`
}

// New returns the pending record of a message, with no attempts (OB-14).
func New(id ID, channel, to string, payload []byte, at time.Time) (Record, error) {
	p, err := Freeze(payload)
	if err != nil {
		return Record{}, err
	}
	r := Record{V: Version, ID: id, Channel: channel, To: to, Payload: p, Status: Pending, CreatedAt: At(at), UpdatedAt: At(at)}
	return r, nil
}

// Freeze returns a payload as it is stored and sent from then on: JSON in
// UTF-8 without white space between its tokens. Anything else is ErrInvalid.
func Freeze(payload []byte) (json.RawMessage, error) {
	if !utf8.Valid(payload) {
		return nil, fmt.Errorf("%w: payload is not UTF-8", ErrInvalid)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, payload); err != nil {
		return nil, fmt.Errorf("%w: payload is not JSON: %w", ErrInvalid, err)
	}
	if b.Len() > MaxPayload {
		return nil, fmt.Errorf("%w: payload has %d bytes, at most %d are allowed", ErrInvalid, b.Len(), MaxPayload)
	}
	return b.Bytes(), nil
}

// Check says why a record cannot be written, wrapping ErrInvalid.
func (r *Record) Check() error {
	switch {
	case r.ID == "" || len(r.ID) > MaxID:
		return fmt.Errorf("%w: id has %d bytes", ErrInvalid, len(r.ID))
	case r.Channel == "":
		return fmt.Errorf("%w: no channel", ErrInvalid)
	case len(r.Channel) > MaxName || len(r.To) > MaxName || len(r.Repo) > MaxName || len(r.TaskID) > MaxName || len(r.SessionID) > MaxName:
		return fmt.Errorf("%w: a name has more than %d bytes", ErrInvalid, MaxName)
	case len(r.Payload) > MaxPayload || !json.Valid(r.Payload):
		return fmt.Errorf("%w: payload is not JSON of at most %d bytes", ErrInvalid, MaxPayload)
	}
	return nil
}

// LeaseEnd is when the outcome of a claim becomes unknown: Lease after its
// last sign of life, or after the try that it waits for.
func (r *Record) LeaseEnd() time.Time {
	last := r.Claim.At.Time
	for _, t := range []Time{r.UpdatedAt, r.NotBefore} {
		if t.After(last) {
			last = t.Time
		}
	}
	return last.Add(Lease)
}

// Unknown reports whether nobody can say if the message reached its recipient:
// it is delivering, and the lease is over.
func (r *Record) Unknown(now time.Time) bool {
	return r.Status == Delivering && !now.Before(r.LeaseEnd())
}

// Key is what the recipient may tell repetitions by: the id of the first
// record that carried the message, the same over tries and resends.
func (r *Record) Key() ID {
	if r.ResendOf != "" {
		return r.ResendOf
	}
	return r.ID
}

// cut shortens s to at most limit bytes at a rune's border, with a note.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const note = "… [cut]"
	end := max(0, limit-len(note))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + note
}
