package kv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// NonceTTL is how long a nonce stays used up: longer than a signed request is
// good for, which is twice the skew of 5 minutes.
const NonceTTL = 11 * time.Minute

// NonceStore remembers the nonces of signed requests, over all processes.
type NonceStore struct{ b *Bucket }

// OpenNonceStore binds to bucket STATE.
func OpenNonceStore(ctx context.Context, js jetstream.JetStream) (*NonceStore, error) {
	b, err := OpenBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	return &NonceStore{b: b}, nil
}

// Use uses a key's nonce up. ErrExists: it was used before. After any other
// error nobody knows; the request has to come with a fresh one.
func (s *NonceStore) Use(ctx context.Context, key, nonce string) error {
	sum := sha256.Sum256([]byte(nonce))
	_, err := s.b.Create(ctx, NonceKey(key, hex.EncodeToString(sum[:])), nil, NonceTTL)
	return err
}
