package github

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// Secret is one of a webhook's secrets; during a rotation there are two. The
// ID names it in metrics and must not reveal the key.
type Secret struct {
	ID  string
	Key []byte

	macs *sync.Pool // of hash.Hash keyed with Key; nil: made for each call
}

// NewSecret returns a secret that keeps its keyed state between calls, so that
// a check costs one SHA-256 pass over the body and no allocation. A copy of it
// shares that state.
func NewSecret(id string, key []byte) Secret {
	key = bytes.Clone(key)
	return Secret{ID: id, Key: key, macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sum appends the body's HMAC to dst.
func (s *Secret) sum(dst, body []byte) []byte {
	if s.macs == nil {
		mac := hmac.New(sha256.New, s.Key)
		mac.Write(body)
		return mac.Sum(dst)
	}
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(body)
	return mac.Sum(dst)
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
		equal := subtle.ConstantTimeCompare(secrets[i].sum(sum[:0], body), want[:])
		equal &= 1 ^ subtle.ConstantTimeEq(int32(len(secrets[i].Key)), 0)
		match = subtle.ConstantTimeSelect(equal, i, match)
	}
	if match < 0 {
		return "", ErrInvalidSignature
	}
	return secrets[match].ID, nil
}
