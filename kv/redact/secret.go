package redact

import (
	"fmt"
	"log/slog"
)

// Hidden is what a Secret prints instead of itself.
const Hidden = "[redacted]"

// Secret is a string that no log, format verb or encoder prints; Reveal is
// the only way to its value. (But encoding/json writes the keys of a map as
// the plain strings they are: a Secret is never to be one.) The empty secret
// prints as nothing, so that a setting that is not set shows.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String returns Hidden, or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Hidden
}

// Format prints String for every verb, the ones a string does not have
// included: fmt would print the value beside its complaint.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue makes slog print String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText writes String; encoders of text formats use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON writes String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
