package doctor

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/belay-run/belay/kv/redact"
)

// minSecret is the length below which a secret is too easy to guess.
const minSecret = 16

const nextSecret = "make one with `openssl rand -hex 32`"

func (d *doctor) github() {
	g := d.c.GitHub
	if path := g.PrivateKeyFile; path != "" {
		d.key("github.private_key_file", path)
	}
	for i, s := range g.WebhookSecrets {
		d.secret(fmt.Sprintf("github.webhook_secrets[%d]", i), s)
	}
	for _, path := range g.WebhookSecretFiles {
		d.private("github.webhook_secret_files", path)
	}
	if len(g.WebhookSecrets) == 0 {
		d.private("storage.dir", d.c.SecretFile())
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
	block, _ := pem.Decode(b)
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		d.fail(field, path+" is empty", "download a private key from the App's settings page")
	case block == nil:
		d.warn(field, path+" does not look like PEM", "name the .pem file that GitHub gave you for the App")
	}
	d.private(field, path)
}
