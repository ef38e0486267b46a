package config

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// Source is a further webhook endpoint, /webhook/{name}, with secrets and an
// App of its own. Its keys mean what those of [github] do, which are the
// source `default`, at /webhook.
type Source struct {
	Name               string          `toml:"name"`
	AppID              int64           `toml:"app_id" min:"0"`
	PrivateKey         redact.Secret   `toml:"private_key"`
	PrivateKeyFile     string          `toml:"private_key_file"`
	WebhookSecrets     []redact.Secret `toml:"webhook_secrets" live:"yes"`
	WebhookSecretFiles []string        `toml:"webhook_secret_files" live:"yes"`
	WebhookURL         string          `toml:"webhook_url" live:"yes"`
	APIURL             string          `toml:"api_url" default:"https://api.github.com"`
	MarkerSecrets      []redact.Secret `toml:"marker_secrets"`
	MarkerSecretFiles  []string        `toml:"marker_secret_files"`
}

// MaxSources is how many sources there may be beside `default` (X04): each
// has metrics, and may have a client of GitHub.
const MaxSources = 64

// GitHub is what a source has in common with [github].
func (s Source) GitHub() GitHub {
	return GitHub{
		AppID: s.AppID, PrivateKey: s.PrivateKey, PrivateKeyFile: s.PrivateKeyFile,
		WebhookSecrets: s.WebhookSecrets, WebhookSecretFiles: s.WebhookSecretFiles, WebhookURL: s.WebhookURL,
		APIURL: s.APIURL, MarkerSecrets: s.MarkerSecrets, MarkerSecretFiles: s.MarkerSecretFiles,
	}
}

// NamedSource is a source and the key of its part of the configuration.
type NamedSource struct {
	Name, Key string
	GitHub
}

// AllSources are the source `default`, then the further ones in their order.
func (c *Config) AllSources() []NamedSource {
	out := []NamedSource{{task.DefaultSource, "github", c.GitHub}}
	for i, s := range c.Sources {
		out = append(out, NamedSource{s.Name, listKey("sources", i), s.GitHub()})
	}
	return out
}

// SourceByName returns a source, `default` among them.
func (c *Config) SourceByName(name string) (NamedSource, bool) {
	for _, s := range c.AllSources() {
		if s.Name == name {
			return s, true
		}
	}
	return NamedSource{}, false
}

// sourceForm matches names of sources. They stand in addresses, keys, labels
// and before delivery ids; there a number is that of a hook.
var sourceForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

func (c *Config) validateSources(p *problems) {
	if n := len(c.Sources); n > MaxSources {
		p.add("sources", "", fmt.Sprintf("there are %d, and %d are possible", n, MaxSources), "run another belay for the others")
		return
	}
	names := map[string]int{}
	for i, s := range c.Sources {
		key := listKey("sources", i)
		if !p.ok(key) {
			continue
		}
		const next = `write lower-case letters, digits, - and _ that begin with a letter, such as "acme"`
		if s.Name == task.DefaultSource {
			p.add(key+".name", quote(s.Name), "is that of [github]", "give it another name")
		} else {
			checkName(p, key+".name", s.Name, sourceForm, next, names, i)
		}
		c.validateApp(p, key, s.GitHub())
		if p.ok(key+".webhook_secrets", key+".webhook_secret_files") && len(s.WebhookSecrets) == 0 && c.Ingests() {
			p.add(c.secretKey(key+".webhook_secret"), "", "are not set", "write those that GitHub signs with; make one with `openssl rand -hex 32`")
		}
	}
	c.compareSources(p)
}

// compareSources refuses what two sources share: a secret that verifies for
// both would let one speak for the other.
func (c *Config) compareSources(p *problems) {
	all := c.AllSources()
	for i, s := range all[1:] {
		for _, o := range all[:i+1] {
			secret := func(v redact.Secret) bool { return v != "" && slices.Contains(o.WebhookSecrets, v) }
			if slices.ContainsFunc(s.WebhookSecrets, secret) && p.ok(s.Key+".webhook_secrets", s.Key+".webhook_secret_files") {
				p.add(c.secretKey(s.Key+".webhook_secret"), "", "has a secret of "+o.Key+" too: it would verify for both", "give each source its own")
			}
			if s.AppID != 0 && s.AppID == o.AppID && s.APIURL == o.APIURL && p.ok(s.Key+".app_id") {
				p.add(s.Key+".app_id", fmt.Sprint(s.AppID), "is the App of "+o.Key, "give each source its own App; an App has one webhook address")
			}
		}
	}
}
