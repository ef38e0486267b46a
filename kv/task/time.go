package task

import (
	"fmt"
	"time"
)

// TimeLayout is the one wire form of a time: UTC, microseconds, fixed width,
// so that text order is time order (DT-28).
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// Time is an instant in UTC with microseconds, written as TimeLayout.
type Time struct{ time.Time }

// At returns t in UTC cut to microseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// String returns the time as TimeLayout, or "" for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeLayout)
}

// MarshalText writes TimeLayout; the zero time is the empty text.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON writes a JSON string in TimeLayout.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads TimeLayout or any RFC 3339 time; "" and null are zero.
func (t *Time) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == `""` || s == "null" {
		*t = Time{}
		return nil
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return fmt.Errorf("time %s is not a string", s)
	}
	p, err := time.Parse(time.RFC3339Nano, s[1:len(s)-1])
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	*t = At(p)
	return nil
}

// IsZero reports whether the time is unset; encoding/json's omitzero uses it.
func (t Time) IsZero() bool { return t.Time.IsZero() }
