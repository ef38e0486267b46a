package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/belay-run/belay/kv/redact"
)

// secretFile is the file in storage.dir with the webhook secret that belay
// made.
const secretFile = "webhook-secret"

// ErrNoSecret means that no webhook secret is configured and none was made yet.
var ErrNoSecret = errors.New("no webhook secret")

// SecretFile is where the webhook secret that belay makes is kept.
func (c *Config) SecretFile() string { return filepath.Join(c.Storage.Dir, secretFile) }

// EnsureSecret makes sure that there is a webhook secret. Where none is
// configured it takes the one in SecretFile, which the first call makes: 64
// hex digits of 32 random bytes, mode 0600. Of processes that call it at once
// all get the same. It returns the file, or "" when the secret is configured.
func (c *Config) EnsureSecret() (string, error) {
	if len(c.GitHub.WebhookSecrets) > 0 {
		return "", nil
	}
	path := c.SecretFile()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(path); err != nil {
			return "", fmt.Errorf("make webhook secret %s: %w", path, err)
		}
	}
	return path, c.UseSecretFile()
}

// UseSecretFile takes the webhook secret that EnsureSecret made, for clients.
// It does nothing where one is configured, and is ErrNoSecret where there is
// none.
func (c *Config) UseSecretFile() error {
	if len(c.GitHub.WebhookSecrets) > 0 {
		return nil
	}
	path := c.SecretFile()
	s, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in the configuration or in %s", ErrNoSecret, path)
	}
	if err != nil {
		return fmt.Errorf("read webhook secret: %w", err)
	}
	c.GitHub.WebhookSecrets = []redact.Secret{s}
	return nil
}

// makeSecret writes a new secret to path, unless another process has by then:
// a link is made only where nothing is, and only to a file that is complete.
func makeSecret(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+secretFile+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(raw[:]) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadSecret reads a file that holds one secret. White space around it is
// dropped; an empty file is an error.
func ReadSecret(path string) (redact.Secret, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return redact.Secret(s), nil
}

// readSecretFiles replaces secrets by those of the files that are named. A
// secret and its file may both be set in different places, and the place of
// higher precedence wins; in one place it is a problem.
func (c *Config) readSecretFiles(p *problems) {
	g, a := &c.GitHub, &c.API
	c.readSecrets(p, "github.webhook_secret", &g.WebhookSecrets, g.WebhookSecretFiles)
	c.readSecrets(p, "github.marker_secret", &g.MarkerSecrets, g.MarkerSecretFiles)
	c.readToken(p, "api.service_token", &a.ServiceToken, a.ServiceTokenFile)
	for i := range a.Tenants {
		c.readToken(p, listKey("api.tenants", i)+".token", &a.Tenants[i].Token, a.Tenants[i].TokenFile)
	}
	for i := range c.Callbacks {
		b, key := &c.Callbacks[i], listKey("callbacks", i)
		c.readSecrets(p, key+".secret", &b.Secrets, b.SecretFiles)
		c.readToken(p, key+".bearer", &b.Bearer, b.BearerFile)
	}
	for i := range c.Sources {
		s, key := &c.Sources[i], listKey("sources", i)
		c.readSecrets(p, key+".webhook_secret", &s.WebhookSecrets, s.WebhookSecretFiles)
		c.readSecrets(p, key+".marker_secret", &s.MarkerSecrets, s.MarkerSecretFiles)
	}
	for i := range c.Operator.Keys {
		k := &c.Operator.Keys[i]
		c.readToken(p, listKey("operator.keys", i)+".secret", &k.Secret, k.SecretFile)
	}
}

// readSecrets replaces the secrets at <key>s by those of the files at
// <key>_files.
func (c *Config) readSecrets(p *problems, key string, secrets *[]redact.Secret, files []string) {
	if len(files) == 0 || !c.useFile(p, key+"s", key+"_files") {
		return
	}
	*secrets = nil
	for _, path := range files {
		*secrets = append(*secrets, readInto(p, key+"_files", path))
	}
}

// readToken replaces the secret at key by that of the file at <key>_file.
func (c *Config) readToken(p *problems, key string, token *redact.Secret, file string) {
	if file != "" && c.useFile(p, key, key+"_file") {
		*token = readInto(p, key+"_file", file)
	}
}

// useFile decides between a secret and its file.
func (c *Config) useFile(p *problems, value, file string) bool {
	v, f := c.Origin(value).rank(), c.Origin(file).rank()
	if v == f {
		p.add(file, "", "is set beside "+value, "keep one of the two")
	}
	return f > v
}

// readInto reads a secret, or notes why it cannot.
func readInto(p *problems, key, path string) redact.Secret {
	s, err := ReadSecret(path)
	if err != nil {
		p.add(key, quote(path), reason(err), "name a file that belay may read and that holds the secret")
	}
	return s
}

// reason is an error without the path that the problem names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return "is empty"
}
