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
	return string(t.append(make([]byte, 0, len(TimeLayout))))
}

// append appends a time that is not zero as TimeLayout: the general formatter
// takes several times as long.
func (t Time) append(b []byte) []byte {
	u := t.UTC()
	year, month, day := u.Date()
	if year < 0 || year > 9999 {
		return u.AppendFormat(b, TimeLayout)
	}
	hour, minute, second := u.Clock()
	b = append(digits(b, year, 4), '-')
	b = append(digits(b, int(month), 2), '-')
	b = append(digits(b, day, 2), 'T')
	b = append(digits(b, hour, 2), ':')
	b = append(digits(b, minute, 2), ':')
	b = append(digits(b, second, 2), '.')
	return append(digits(b, u.Nanosecond()/1000, 6), 'Z')
}

// digits appends n with leading zeros.
func digits(b []byte, n, width int) []byte {
	for i := 0; i < width; i++ {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0; i, n = i-1, n/10 {
		b[i] = byte('0' + n%10)
	}
	return b
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
