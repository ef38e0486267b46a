package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/belay-run/belay/kv/redact"
)

// HasApp reports whether a GitHub App is configured, with its key.
func (g GitHub) HasApp() bool { return g.AppID != 0 && (g.PrivateKey != "" || g.PrivateKeyFile != "") }

// AppKey returns the App's private key in PEM: PrivateKey, else what
// PrivateKeyFile holds. A key in one line, as some environments have it, may
// write its line ends as \n.
func (g GitHub) AppKey() ([]byte, error) {
	if g.PrivateKey == "" {
		b, err := os.ReadFile(g.PrivateKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read github.private_key_file: %w", err)
		}
		return b, nil
	}
	text := g.PrivateKey.Reveal()
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	return []byte(text), nil
}

func (c *Config) validateGitHub(p *problems) {
	g := c.GitHub
	c.validateApp(p, "github", g)
	if p.ok("github.webhook_secrets", "github.webhook_secret_files") && len(g.WebhookSecrets) == 0 && !c.Embedded() && c.Ingests() {
		p.add(c.secretKey("github.webhook_secret"), "", "are not set",
			"set them: processes that share a NATS server have to share a secret, so belay makes none")
	}
}

// validateApp checks the keys that [github] and a source have.
func (c *Config) validateApp(p *problems, key string, g GitHub) {
	validateAPIURL(p, key+".api_url", g.APIURL)
	if url := key + ".webhook_url"; p.ok(url) && g.WebhookURL != "" && !isURL(g.WebhookURL, "https", "http") {
		p.add(url, quote(g.WebhookURL), "is not an http address", `write the one that GitHub reaches, such as "https://belay.example/webhook"`)
	}
	validateKey(p, key, g, c.Works() || c.Relays())
	c.validateSecrets(p, key+".webhook_secret", g.WebhookSecrets)
	c.validateSecrets(p, key+".marker_secret", g.MarkerSecrets)
}

// validateAPIURL refuses a base that tokens must not be sent to.
func validateAPIURL(p *problems, key, text string) {
	const next = `write one such as "https://api.github.com", or "https://HOST/api/v3/" for GitHub Enterprise Server`
	if !p.ok(key) {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		p.add(key, quote(hideQuery(text)), "is not an http address", next)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		p.add(key, quote(hideQuery(text)), "carries a user, a query or a fragment", next)
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()):
		p.add(key, quote(text), "is plain http: tokens would be sent in the clear", "write https://")
	}
}

func isLoopbackHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// validateKey checks that an App has an id and one key; keyed says that this
// process needs the key.
func validateKey(p *problems, at string, g GitHub, keyed bool) {
	id, text, file := at+".app_id", at+".private_key", at+".private_key_file"
	if !p.ok(id, text, file) {
		return
	}
	key := text
	if g.PrivateKey == "" {
		key = file
	}
	set := g.PrivateKey != "" || g.PrivateKeyFile != ""
	switch {
	case g.AppID == 0 && set:
		p.add(id, "0", "is not set, but "+key+" is", "write the App's id, as its settings page shows it")
	case g.AppID != 0 && !set && keyed:
		p.add(file, "", "is not set, but "+id+" is", "name the .pem file that GitHub gave you for the App")
	case g.PrivateKey != "" && g.PrivateKeyFile != "":
		p.add(file, quote(g.PrivateKeyFile), "is set beside "+text, "keep one of the two")
	}
	if g.PrivateKey != "" {
		checkSecret(p, text, g.PrivateKey)
	}
}

// secretKey is where secrets come from: <key>s, or <key>_files.
func (c *Config) secretKey(key string) string {
	if c.Origin(key+"_files").rank() > c.Origin(key+"s").rank() {
		return key + "_files"
	}
	return key + "s"
}

func (c *Config) validateSecrets(p *problems, key string, secrets []redact.Secret) {
	if !p.ok(key+"s", key+"_files") {
		return
	}
	for _, s := range secrets {
		checkSecret(p, c.secretKey(key), s)
	}
}
