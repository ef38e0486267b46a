package outbox

import (
	"fmt"
	"time"
)

// timeLayout is the wire form of a time: UTC, microseconds, fixed width.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is an instant in UTC with microseconds, written in one fixed width so
// that text order is time order; the zero time is the empty text.
type Time struct{ time.Time }

// At returns t in UTC cut to microseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// String returns the time in its wire form, or "" for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// MarshalText writes the wire form.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON writes a JSON string in the wire form.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalText reads the wire form or any RFC 3339 time; the empty text is zero.
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = Time{}
		return nil
	}
	p, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	*t = At(p)
	return nil
}

// UnmarshalJSON reads the wire form, any RFC 3339 time, "" or null.
func (t *Time) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" {
		*t = Time{}
		return nil
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return fmt.Errorf("time %s is not a string", s)
	}
	return t.UnmarshalText([]byte(s[1 : len(s)-1]))
}

// IsZero reports whether the time is unset; encoding/json's omitzero uses it.
func (t Time) IsZero() bool { return t.Time.IsZero() }
