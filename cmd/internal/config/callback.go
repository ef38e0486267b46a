package config

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/belay-run/belay/consumers/relay/egress"
	"github.com/belay-run/belay/kv/redact"
)

// Callback is one recipient of what became of tasks: a URL that gets each
// outcome once, signed as Standard Webhooks.
type Callback struct {
	Name string `toml:"name"`
	// URL is https, unless AllowPrivate permits http.
	URL string `toml:"url" hide:"query"`
	// Secrets are one, or two while they are rotated: both sign. Each is
	// base64 of at least 24 bytes, with or without the prefix whsec_. After
	// Load they are those of SecretFiles where these are named.
	Secrets     []redact.Secret `toml:"secrets"`
	SecretFiles []string        `toml:"secret_files"`
	// Bearer is sent as an Authorization header if set. After Load it is that
	// of BearerFile where one is named.
	Bearer     redact.Secret `toml:"bearer"`
	BearerFile string        `toml:"bearer_file"`
	// AllowPrivate permits plain http and addresses of this host and of
	// private networks.
	AllowPrivate bool `toml:"allow_private"`
	// Timeout bounds one request, from dialling to the answer.
	Timeout time.Duration `toml:"timeout" default:"10s" min:"1s" max:"45s"`
}

const (
	// minCallbackSecret is the least number of bytes of a secret, as the
	// specification of Standard Webhooks has it.
	minCallbackSecret = 24
	// maxCallbackSecrets are the new one and the old one.
	maxCallbackSecrets = 2
	nextCallbackSecret = "make one with `echo whsec_$(openssl rand -base64 32)`, and give it to the recipient"
)

func (c *Config) validateCallbacks(p *problems) {
	names := map[string]int{}
	for i, b := range c.Callbacks {
		key := listKey("callbacks", i)
		if !p.ok(key) {
			continue
		}
		checkName(p, key+".name", b.Name, nameForm, "write letters, digits, - and _, such as \"ci\"", names, i)
		b.validateURL(p, key+".url")
		c.validateCallbackSecrets(p, key, b)
	}
}

// validateURL refuses what the relay would refuse when it starts or sends.
func (b Callback) validateURL(p *problems, key string) {
	if !p.ok(key) {
		return
	}
	const next = `write one such as "https://ci.example/belay"`
	shown := quote(hideQuery(b.URL))
	u, err := url.Parse(b.URL)
	switch {
	case b.URL == "":
		p.add(key, "", "is not set", next)
	case err != nil || u.Hostname() == "":
		p.add(key, shown, "is not an address", next)
	case strings.Contains(b.URL, hidden):
		p.add(key, shown, "is what `belay config print` shows in place of an address", "write the whole address")
	case u.User != nil:
		p.add(key, shown, "carries a user", "remove it, and set bearer or bearer_file for the recipient's token")
	case u.Fragment != "":
		p.add(key, shown, "has a fragment (#…)", "remove it")
	case u.Scheme == "http" && !b.AllowPrivate:
		p.add(key, shown, "is plain http", "write https://, or set allow_private = true for a recipient of your own network")
	case u.Scheme != "https" && u.Scheme != "http":
		p.add(key, shown, "is not an https address", next)
	default:
		b.validateHost(p, key, shown, u.Hostname())
	}
}

// validateHost looks at a host that is an address, or this one. Others are
// looked up when the relay dials, and checked then.
func (b Callback) validateHost(p *problems, key, shown, host string) {
	const next = "name a host that is reached from outside, or set allow_private = true"
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := egress.Check(addr, b.AllowPrivate); err != nil {
			p.add(key, shown, err.Error(), next)
		}
		return
	}
	if h := strings.ToLower(host); !b.AllowPrivate && (h == "localhost" || strings.HasSuffix(h, ".localhost")) {
		p.add(key, shown, "is this host", next)
	}
}

func (c *Config) validateCallbackSecrets(p *problems, prefix string, b Callback) {
	key := c.secretKey(prefix + ".secret")
	if p.ok(prefix+".secrets", prefix+".secret_files") {
		switch n := len(b.Secrets); {
		case n == 0 && !c.Relays(): // it sends nothing
		case n == 0:
			p.add(key, "", "are not set", nextCallbackSecret)
		case n > maxCallbackSecrets:
			p.add(key, "", fmt.Sprintf("are %d", n), "keep the new one and, while the recipient changes over, the old one")
		}
		for _, s := range b.Secrets {
			checkCallbackSecret(p, key, s)
		}
	}
	if p.ok(prefix+".bearer", prefix+".bearer_file") && b.Bearer != "" {
		checkSecret(p, prefix+".bearer", b.Bearer)
	}
}

// checkCallbackSecret holds a secret against the form that the relay reads.
func checkCallbackSecret(p *problems, key string, s redact.Secret) {
	text := strings.TrimPrefix(strings.TrimSpace(s.Reveal()), "whsec_")
	raw, err := base64.StdEncoding.DecodeString(text)
	switch {
	case text == "":
		p.add(key, "", "has an empty secret", nextCallbackSecret)
	case err != nil:
		p.add(key, "", "has a secret that is not base64", nextCallbackSecret)
	case len(raw) < minCallbackSecret:
		p.add(key, "", fmt.Sprintf("has a secret of %d bytes, at least %d are needed", len(raw), minCallbackSecret), nextCallbackSecret)
	}
}

// nextCallback is the next step for a name that no callback has.
func (c *Config) nextCallback(name string) string {
	var names []string
	for _, b := range c.Callbacks {
		if b.Name != "" {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return "add [[callbacks]] with name = " + quote(name) + ", url and secrets"
	}
	return "write one of: " + strings.Join(names, ", ")
}
