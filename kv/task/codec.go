package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Errors of Decode.
var (
	// ErrNewer: the record was written by a newer belay and is left alone.
	ErrNewer = errors.New("record is of a newer version")
	// ErrCorrupt: the record cannot be decoded and is left alone.
	ErrCorrupt = errors.New("record cannot be decoded")
)

// Scannable is a record that can be read without encoding/json. Scan either
// reads what encoding/json would, or returns false and leaves it as it was.
type Scannable interface{ Scan(data []byte) bool }

// Decode reads a versioned JSON record into v, whose field `v` is at version:
// a newer one is ErrNewer, anything else that does not parse or has no version
// ErrCorrupt. Neither is ever written over.
func Decode(data []byte, v any, version *int) error {
	if s, ok := v.(Scannable); ok && s.Scan(data) && *version >= 1 && *version <= Version {
		return nil
	}
	err := json.Unmarshal(data, v)
	if err == nil && *version >= 1 && *version <= Version {
		return nil
	}
	// A newer shape may not parse at all: look at its number alone.
	var head struct {
		V int `json:"v"`
	}
	if json.Unmarshal(data, &head) == nil && head.V > Version {
		return fmt.Errorf("%w: v %d, this belay knows %d", ErrNewer, head.V, Version)
	}
	if err == nil {
		return fmt.Errorf("%w: v is %d", ErrCorrupt, *version)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// DecodeRecord reads a record's value; ErrNewer or ErrCorrupt if it cannot.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	if err := Decode(data, &r, &r.V); err != nil {
		return Record{}, fmt.Errorf("decode task: %w", err)
	}
	if r.ID == "" || !slices.Contains(States, r.State) {
		return Record{}, fmt.Errorf("decode task: %w: id %q, state %q", ErrCorrupt, r.ID, r.State)
	}
	return r, nil
}
