package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	vectorKey  = "It's a Secret to Everybody"
	vectorBody = "Hello, World!"
	vectorSum  = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestG11SignatureVectors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, key, header string
		err               error
	}{
		{"official vector", vectorKey, "sha256=" + vectorSum, nil},
		{"header missing", vectorKey, "", ErrMissingSignature},
		{"sha1", vectorKey, "sha1=" + vectorSum[:40], ErrInvalidSignature},
		{"63 digits", vectorKey, "sha256=" + vectorSum[:63], ErrInvalidSignature},
		{"65 digits", vectorKey, "sha256=" + vectorSum + "0", ErrInvalidSignature},
		{"no digit", vectorKey, "sha256=" + vectorSum[:63] + "g", ErrInvalidSignature},
		{"upper-case prefix", vectorKey, "SHA256=" + vectorSum, ErrInvalidSignature},
		{"no prefix", vectorKey, vectorSum, ErrInvalidSignature},
		{"wrong secret", "guess", "sha256=" + vectorSum, ErrInvalidSignature},
		{"flipped digit", vectorKey, "sha256=6" + vectorSum[1:], ErrInvalidSignature},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []Secret{{ID: "s", Key: []byte(tt.key)}, NewSecret("s", []byte(tt.key))} {
				for range 2 { // the second time on used state
					id, err := Verify([]Secret{s}, []byte(vectorBody), tt.header)
					require.ErrorIs(t, err, tt.err)
					require.Equal(t, tt.err == nil, id == "s")
				}
			}
		})
	}
}

func TestG11EmptySecretNeverMatches(t *testing.T) {
	t.Parallel()
	body := []byte(vectorBody)
	for _, secrets := range [][]Secret{nil, {{ID: "empty"}}, {NewSecret("empty", nil)}} {
		_, err := Verify(secrets, body, sign("", body))
		require.ErrorIs(t, err, ErrInvalidSignature)
	}
}

func TestG42TwoSecrets(t *testing.T) {
	t.Parallel()
	body := []byte(`{"zen":"x"}`)
	both := []Secret{NewSecret("new", []byte("n3w")), NewSecret("old", []byte("0ld"))}
	for _, s := range both {
		id, err := Verify(both, body, sign(string(s.Key), body))
		require.NoError(t, err)
		require.Equal(t, s.ID, id)
	}
	_, err := Verify(both[:1], body, sign("0ld", body))
	require.ErrorIs(t, err, ErrInvalidSignature, "after the old one is removed")
}

func TestVerifyTriesEverySecret(t *testing.T) {
	t.Parallel()
	body := []byte(vectorBody)
	var tried []string
	counting := func(id, key string) Secret {
		s := NewSecret(id, []byte(key))
		s.macs = &sync.Pool{New: func() any {
			tried = append(tried, id)
			return hmac.New(sha256.New, []byte(key))
		}}
		return s
	}
	for _, key := range []string{"a", "b", "c", "none"} {
		tried = nil
		secrets := []Secret{counting("a", "a"), counting("b", "b"), counting("c", "c")}
		id, _ := Verify(secrets, body, sign(key, body))
		require.ElementsMatch(t, []string{"a", "b", "c"}, tried)
		require.Equal(t, strings.TrimSuffix(key, "none"), id)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(vectorBody), "sha256="+vectorSum, "k")
	f.Add([]byte(""), "", "")
	f.Add([]byte("x"), "sha1=00", "k")
	f.Add([]byte("x"), "sha256="+strings.Repeat("z", 64), vectorKey)
	f.Fuzz(func(t *testing.T, body []byte, header, key string) {
		secrets := []Secret{NewSecret("other", []byte("other "+key)), {ID: "key", Key: []byte(key)}}
		id, err := Verify(secrets, body, sign(key, body))
		if key == "" {
			require.ErrorIs(t, err, ErrInvalidSignature)
		} else {
			require.NoError(t, err)
			require.Equal(t, "key", id)
		}
		_, err = Verify(secrets, body, header)
		lower := strings.ToLower(strings.TrimPrefix(header, signaturePrefix))
		right := strings.HasPrefix(header, signaturePrefix) &&
			("sha256="+lower == sign("other "+key, body) || key != "" && "sha256="+lower == sign(key, body))
		require.Equal(t, right, err == nil)
	})
}
