package task

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The functions below set a field from the text of a value that a scanner
// passed over. Like encoding/json they leave it as it is at null; they return
// false at a value that encoding/json has to judge.

var null = []byte("null")

func isNull(value []byte) bool { return bytes.Equal(value, null) }

// ScanString reads a string.
func ScanString[T ~string](value []byte, to *T) bool {
	if isNull(value) {
		return true
	}
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		*to = T(text)
		return true
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return false
	}
	*to = T(s)
	return true
}

// ScanInt reads a whole number.
func ScanInt[T ~int | ~int64](value []byte, to *T) bool {
	if isNull(value) {
		return true
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || int64(T(n)) != n {
		return false
	}
	*to = T(n)
	return true
}

// ScanUint reads a whole number that is not negative.
func ScanUint(value []byte, to *uint64) bool {
	if isNull(value) {
		return true
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		return false
	}
	*to = n
	return true
}

// ScanBool reads true or false.
func ScanBool(value []byte, to *bool) bool {
	switch string(value) {
	case "true":
		*to = true
	case "false":
		*to = false
	case "null":
	default:
		return false
	}
	return true
}

// ScanTime reads a time; null is the zero time.
func ScanTime(value []byte, to *Time) bool {
	if len(value) > 2 && value[0] == '"' {
		return to.UnmarshalText(value[1:len(value)-1]) == nil
	}
	return to.UnmarshalJSON(value) == nil
}
