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
	return t.UnmarshalText([]byte(s[1 : len(s)-1]))
}

// UnmarshalText reads TimeLayout or any RFC 3339 time; the empty text is zero.
// A time whose year in UTC has no four digits is refused: it would not sort.
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = Time{}
		return nil
	}
	p, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	if y := p.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("parse time: year %d is out of range", y)
	}
	*t = At(p)
	return nil
}

// IsZero reports whether the time is unset; encoding/json's omitzero uses it.
func (t Time) IsZero() bool { return t.Time.IsZero() }
