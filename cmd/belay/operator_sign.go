package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv/redact"
)

// Variables of who signs. They do not begin as those of the configuration.
const (
	keyVar          = "BELAY_SIGN_KEY"
	secretVar       = "BELAY_SIGN_SECRET"
	operatorVar     = "BELAY_SIGN_AS"
	conversationVar = "BELAY_SIGN_CONVERSATION"
)

// signFlags are those of every signed command.
type signFlags struct{ key, secretFile, as, conversation string }

// signing is who signs, with what.
type signing struct {
	key                    string
	secret                 redact.Secret
	operator, conversation string
}

// signed adds the flags of a signed command.
func (c *cli) signed(cmd *cobra.Command, s *signFlags) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&s.key, "key", "", "`id` of the key to sign with (default: $"+keyVar+", else the configuration's first)")
	f.StringVar(&s.secretFile, "secret-file", "", "`file` with the key's secret (default: $"+secretVar+", else the configuration's)")
	f.StringVar(&s.as, "as", "", "the `operator` that you act for (default: $"+operatorVar+")")
	f.StringVar(&s.conversation, "conversation", "", "the `conversation` that the request is of (default: $"+conversationVar+")")
	return c.serverFlag(cmd)
}

// signer finds out where belay is, and who signs. The configuration's own keys
// sign only for the configuration's own address.
func (c *cli) signer(s *signFlags) (*apiClient, *signing, error) {
	or := func(flag, name string) string {
		if flag != "" {
			return flag
		}
		return c.getenv(name)
	}
	k := &signing{key: or(s.key, keyVar), secret: redact.Secret(c.getenv(secretVar)), operator: or(s.as, operatorVar), conversation: or(s.conversation, conversationVar)}
	switch {
	case k.operator == "":
		return nil, nil, usageError("--as is missing: write the operator that you act for, or set $%s", operatorVar)
	case k.conversation == "":
		return nil, nil, usageError("--conversation is missing: write the conversation that the request is of, or set $%s", conversationVar)
	}
	if s.secretFile != "" {
		secret, err := config.ReadSecret(s.secretFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read --secret-file: %w", err)
		}
		k.secret = secret
	}
	a, err := c.dial()
	if err != nil {
		return nil, nil, err
	}
	if k.secret == "" {
		if err := c.configuredKey(k); err != nil {
			return nil, nil, err
		}
	}
	if k.key == "" {
		return nil, nil, usageError("--key is missing: write the id of the key that the secret is of, or set $%s", keyVar)
	}
	return a, k, nil
}

// configuredKey takes the key of the configuration that has the id, or else
// the first.
func (c *cli) configuredKey(k *signing) error {
	if c.server != "" {
		return usageError("--secret-file is missing: name the file with the secret of a key of %s, or set $%s", c.server, secretVar)
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	for _, have := range cfg.Operator.Keys {
		if k.key == "" || k.key == have.ID {
			k.key, k.secret = have.ID, have.Secret
			return nil
		}
	}
	if k.key != "" {
		return usageError("--key %s: the configuration has no such key under [[operator.keys]]: name its secret with --secret-file", k.key)
	}
	return usageError("there is no key to sign with: add [[operator.keys]] to the configuration, or pass --key and --secret-file")
}

// callSigned makes one signed request. An answer of any status is no error.
func (c *cli) callSigned(ctx context.Context, a *apiClient, k *signing, method, path string, body any) (answer, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("encode request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(data))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	stamp, nonce := strconv.FormatInt(c.now().Unix(), 10), uuid.NewString()
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("X-Belay-Key", k.key)
	h.Set("X-Belay-Timestamp", stamp)
	h.Set("X-Belay-Nonce", nonce)
	h.Set("X-Belay-Operator", k.operator)
	h.Set("X-Belay-Conversation", k.conversation)
	h.Set("X-Belay-Signature", ingest.SignOperatorRequest([]byte(k.secret.Reveal()), method, path, stamp, nonce, k.operator, k.conversation, data))
	return a.do(req)
}

// refusedSigned makes an error of an answer without a code.
func (a *apiClient) refusedSigned(ans answer) error {
	e := a.refused(ans)
	switch ans.status {
	case http.StatusUnauthorized:
		e.next = "the server knows no such key with this secret, or the clocks differ by more than 5 minutes: check --key, --secret-file, --as and --conversation"
	case http.StatusServiceUnavailable:
		e.next = "see the server's `belay doctor`, and its /readyz; try again once it is well"
	}
	return e
}
