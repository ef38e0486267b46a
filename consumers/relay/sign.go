package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/redact"
)

// Headers of Standard Webhooks (standardwebhooks.com, specification 1.0).
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// secretPrefix may stand before the base64 of a secret.
const secretPrefix = "whsec_"

// minSecret is the specification's least number of bytes in a secret.
const minSecret = 24

// ParseSecret decodes a secret of Standard Webhooks: base64, with or without
// the prefix whsec_, of at least 24 bytes. The error does not contain it.
func ParseSecret(s redact.Secret) ([]byte, error) {
	text := strings.TrimPrefix(strings.TrimSpace(s.Reveal()), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("secret is not base64")
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("secret has %d bytes, needs at least %d", len(key), minSecret)
	}
	return key, nil
}

// Sign returns the value of webhook-signature: one signature for each key,
// separated by blanks, so that the recipient may hold either while a secret is
// rotated. It covers id, timestamp and the body as it is sent.
func Sign(keys [][]byte, id outbox.ID, at time.Time, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(string(id) + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
