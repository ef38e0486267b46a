//go:build ci

package relay

import (
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The signature, made by openssl.
func TestSignatureAgreesWithOpenSSL(t *testing.T) {
	t.Parallel()
	key, err := ParseSecret(secret('k'))
	require.NoError(t, err)
	cmd := exec.Command("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", "key:"+string(key), "-binary")
	cmd.Stdin = strings.NewReader(`id.1700000000.{"a":1}`)
	raw, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(raw), Sign([][]byte{key}, "id", time.Unix(1700000000, 0), []byte(`{"a":1}`)))
}
