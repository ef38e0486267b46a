package doctor

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/redact"
)

// minSecret is the length below which a secret is too easy to guess.
const minSecret = 16

const nextSecret = "make one with `openssl rand -hex 32`"

func (d *doctor) github() {
	for _, src := range d.c.AllSources() {
		d.source(src)
	}
	if len(d.c.GitHub.WebhookSecrets) == 0 {
		d.private("storage.dir", d.c.SecretFile())
	}
}

// source checks the secrets of one source, which stand under its key.
func (d *doctor) source(src config.NamedSource) {
	g, at := src.GitHub, src.Key+"."
	if path := g.PrivateKeyFile; path != "" {
		d.key(at+"private_key_file", path)
	}
	if g.PrivateKey != "" {
		if text, err := g.AppKey(); err == nil {
			d.pem(at+"private_key", "it", text)
		}
	}
	for i, s := range g.WebhookSecrets {
		d.secret(fmt.Sprintf("%swebhook_secrets[%d]", at, i), s)
	}
	for i, s := range g.MarkerSecrets {
		d.secret(fmt.Sprintf("%smarker_secrets[%d]", at, i), s)
	}
	for _, path := range g.WebhookSecretFiles {
		d.private(at+"webhook_secret_files", path)
	}
	for _, path := range g.MarkerSecretFiles {
		d.private(at+"marker_secret_files", path)
	}
}

func (d *doctor) secret(field string, s redact.Secret) {
	if n := len(s); n > 0 && n < minSecret {
		d.warn(field, fmt.Sprintf("it is shorter than %d characters", minSecret), nextSecret)
	}
}

// key checks the private key of the App, without parsing more of it than its
// envelope.
func (d *doctor) key(field, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		d.fail(field, fmt.Sprintf("%s cannot be read: %s", path, cause(err)), "name the .pem file that GitHub gave you for the App")
		return
	}
	d.pem(field, path, b)
	d.private(field, path)
}

func (d *doctor) pem(field, what string, text []byte) {
	block, _ := pem.Decode(text)
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		d.fail(field, what+" is empty", "download a private key from the App's settings page")
	case block == nil:
		d.warn(field, what+" does not look like PEM", "use the .pem file that GitHub gave you for the App")
	}
}
