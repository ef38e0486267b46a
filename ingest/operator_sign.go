package ingest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/kv"
)

// Headers of a signed request.
const (
	headerKey          = "X-Belay-Key"
	headerTimestamp    = "X-Belay-Timestamp"
	headerNonce        = "X-Belay-Nonce"
	headerOperator     = "X-Belay-Operator"
	headerConversation = "X-Belay-Conversation"
	headerSigned       = "X-Belay-Signature"
)

const (
	// maxSkew is how far a request's timestamp may be from now.
	maxSkew = 5 * time.Minute
	// signatureVersion comes before the signature's hex digits.
	signatureVersion = "v1="
)

var (
	// nameHeader matches an operator or a conversation: readable, and with
	// one spelling, as they are compared byte for byte.
	nameHeader = regexp.MustCompile(`^[!-~]([ -~]{0,198}[!-~])?$`)
	// nonceHeader is long enough not to be met by chance.
	nonceHeader = regexp.MustCompile(`^[!-~]{16,128}$`)
	// stampHeader is unix seconds in their one spelling.
	stampHeader = regexp.MustCompile(`^[1-9][0-9]{0,11}$`)
)

// OperatorKey is a key that signs operators' requests.
type OperatorKey struct {
	ID     string
	Secret []byte
}

// signer is who signed a request, and for whom.
type signer struct {
	key, operator, conversation string
}

// caller is the signer's name in the audit trail.
func (g signer) caller() string { return "operator:" + g.key }

type signerKey struct{}

// SignOperatorRequest is the signature of a request as its header has it: the
// HMAC-SHA256 over method, path with query, timestamp, nonce, operator,
// conversation and the body's hex SHA-256, each ended by a newline.
func SignOperatorRequest(secret []byte, method, path, timestamp, nonce, operator, conversation string, body []byte) string {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{method, path, timestamp, nonce, operator, conversation, hex.EncodeToString(sum[:])} {
		_, _ = io.WriteString(mac, part+"\n")
	}
	return signatureVersion + hex.EncodeToString(mac.Sum(nil))
}

// signed lets a request through that one of the keys signed, once. Whatever is
// wrong with another is answered in one way. Nothing is looked at before.
func (s *Server) signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handle(func(w http.ResponseWriter, r *http.Request, _ Caller) error {
			if !s.o.Operator.enabled() {
				return errBlocked
			}
			body, err := readSigned(w, r)
			if err != nil {
				return err
			}
			g, ok := s.verify(r, body)
			if !ok {
				return s.deny(r, remoteOf(r))
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
			defer cancel()
			switch err := s.o.Operator.Nonces.Use(ctx, g.key, r.Header.Get(headerNonce)); {
			case errors.Is(err, kv.ErrExists), errors.Is(err, kv.ErrConflict):
				return s.deny(r, remoteOf(r))
			case err != nil:
				return err
			}
			if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodGet && (err != nil || media != "application/json") {
				return errContentType
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), signerKey{}, g)))
			return nil
		})(w, r)
	})
}

func readSigned(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if m := (*http.MaxBytesError)(nil); errors.As(err, &m) {
		return nil, errRequestSize
	}
	if err != nil {
		return nil, bodyError(err)
	}
	return body, nil
}

// verify finds out who signed a request. An unknown key costs what a known one
// does.
func (s *Server) verify(r *http.Request, body []byte) (signer, bool) {
	var h [6]string
	for i, name := range []string{headerKey, headerTimestamp, headerNonce, headerOperator, headerConversation, headerSigned} {
		values := r.Header.Values(name)
		if len(values) != 1 {
			return signer{}, false
		}
		h[i] = values[0]
	}
	g, stamp, nonce := signer{h[0], h[3], h[4]}, h[1], h[2]
	secret, known := []byte{}, 0
	for _, k := range s.o.Operator.Keys() {
		if same := subtle.ConstantTimeCompare([]byte(k.ID), []byte(g.key)); same == 1 {
			secret, known = k.Secret, 1
		}
	}
	want := SignOperatorRequest(secret, r.Method, r.URL.RequestURI(), stamp, nonce, g.operator, g.conversation, body)
	match := subtle.ConstantTimeCompare([]byte(want), []byte(strings.TrimSpace(h[5])))
	ok := known&match == 1 && len(secret) > 0 && nonceHeader.MatchString(nonce) &&
		nameHeader.MatchString(g.operator) && nameHeader.MatchString(g.conversation) && s.fresh(stamp)
	return g, ok
}

// fresh reports whether a timestamp is near enough to now.
func (s *Server) fresh(stamp string) bool {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || !stampHeader.MatchString(stamp) {
		return false
	}
	d := s.o.Now().Sub(time.Unix(n, 0))
	return d.Abs() <= maxSkew
}
