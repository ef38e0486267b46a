package github

import (
	"bytes"
	"fmt"
	"strings"
)

const formType = "application/x-www-form-urlencoded"

// Payload returns the JSON of a body: the body itself, or for the content
// type application/x-www-form-urlencoded the form's first `payload` field
// (G07). Any other content type, or none, is taken for JSON; Decode tells. The
// body is not changed, since its bytes are what was signed.
func Payload(contentType string, body []byte) (json []byte, err error) {
	media, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(media), formType) {
		return body, nil
	}
	for len(body) > 0 {
		var pair []byte
		pair, body, _ = bytes.Cut(body, []byte{'&'})
		if value, ok := bytes.CutPrefix(pair, []byte("payload=")); ok {
			return unescapeForm(value)
		}
	}
	return nil, fmt.Errorf("%w: the form has no payload field", ErrParse)
}

func unescapeForm(v []byte) ([]byte, error) {
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '+':
			out = append(out, ' ')
		case '%':
			if i+2 >= len(v) {
				return nil, fmt.Errorf("%w: the form ends inside an escape", ErrParse)
			}
			hi, lo := hexDigit(v[i+1]), hexDigit(v[i+2])
			if hi < 0 || lo < 0 {
				return nil, fmt.Errorf("%w: the form has a bad escape at byte %d of payload", ErrParse, i)
			}
			out = append(out, byte(hi<<4|lo))
			i += 2
		default:
			out = append(out, v[i])
		}
	}
	return out, nil
}

// hexDigit is the value of a hexadecimal digit, or -1.
func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
