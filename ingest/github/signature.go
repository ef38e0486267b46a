package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// Secret is one of a webhook's secrets; during a rotation there are two. The
// ID names it in metrics and must not reveal the key.
type Secret struct {
	ID  string
	Key []byte
}

const signaturePrefix = "sha256="

// Verify checks header, the value of X-Hub-Signature-256, over the raw body
// and returns the id of the secret that made it, the first one of several.
// Every secret is tried whatever the others say, each in constant time. An
// empty key never matches. Errors are ErrMissingSignature and
// ErrInvalidSignature.
func Verify(secrets []Secret, body []byte, header string) (secretID string, err error) {
	if header == "" {
		return "", ErrMissingSignature
	}
	digits, ok := strings.CutPrefix(header, signaturePrefix)
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) {
		return "", ErrInvalidSignature
	}
	var want, sum [sha256.Size]byte
	if _, err := hex.Decode(want[:], []byte(digits)); err != nil {
		return "", ErrInvalidSignature
	}
	match := -1
	for i := len(secrets) - 1; i >= 0; i-- {
		mac := hmac.New(sha256.New, secrets[i].Key)
		mac.Write(body)
		equal := subtle.ConstantTimeCompare(mac.Sum(sum[:0]), want[:])
		equal &= 1 ^ subtle.ConstantTimeEq(int32(len(secrets[i].Key)), 0)
		match = subtle.ConstantTimeSelect(equal, i, match)
	}
	if match < 0 {
		return "", ErrInvalidSignature
	}
	return secrets[match].ID, nil
}
