package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/belay-run/belay/kv/redact"
)

// Tenant is a token that sees one installation, or some repositories of it.
type Tenant struct {
	// Name stands for the token in the audit trail; `installation-<id>` by
	// default.
	Name string `toml:"name"`
	// Token is, after Load, that of TokenFile where one is named.
	Token     redact.Secret `toml:"token"`
	TokenFile string        `toml:"token_file"`
	// InstallationID is the one installation that the token sees.
	InstallationID int64 `toml:"installation_id"`
	// Repos limit it to some repositories, owner/name; none: all of them.
	Repos []string `toml:"repos"`
}

const (
	// minToken is the least length of a tenant's token: it is used from outside.
	minToken  = 16
	nextToken = "make one with `openssl rand -hex 32`, and give it to nobody else"
)

// nameTenants gives those a name that have none.
func (c *Config) nameTenants() {
	for i := range c.API.Tenants {
		if t := &c.API.Tenants[i]; t.Name == "" && t.InstallationID > 0 {
			t.Name = fmt.Sprintf("installation-%d", t.InstallationID)
		}
	}
}

func (c *Config) validateAPITenants(p *problems) {
	a := c.API
	if a.Mode == ModeOpen && len(a.Tenants) > 0 && p.ok("api.mode", "api.tenants") {
		p.add("api.mode", quote(a.Mode), "asks for no token, so nothing would keep tenants apart", `set mode = "token" under [api], or remove api.tenants`)
	}
	names, tokens := map[string]int{}, map[string]string{}
	if a.ServiceToken != "" {
		tokens[a.ServiceToken.Reveal()] = "api.service_token"
	}
	for i, t := range a.Tenants {
		key := listKey("api.tenants", i)
		if !p.ok(key) {
			continue
		}
		switch {
		case !p.ok(key + ".installation_id"):
		case t.InstallationID < 1:
			p.add(key+".installation_id", "", "is not the id of an installation", "write the number at the end of the installation's settings address on GitHub")
		default:
			checkName(p, key+".name", t.Name, nameForm, "write letters, digits, - and _, such as \"acme\"", names, i)
		}
		c.validateToken(p, key, t, tokens)
		c.validateTenantRepos(p, key+".repos", t)
	}
}

// validateToken refuses a token that is weak, or that another caller has.
func (c *Config) validateToken(p *problems, prefix string, t Tenant, taken map[string]string) {
	key := prefix + ".token"
	if !p.ok(key, key+"_file") {
		return
	}
	if c.Origin(key+"_file").rank() > c.Origin(key).rank() {
		key += "_file"
	}
	text := t.Token.Reveal()
	if text == "" && c.Origin(key) == OriginDefault {
		p.add(key, "", "is not set", "set token or token_file; "+nextToken)
		return
	}
	if checkSecret(p, key, t.Token); !p.ok(key) {
		return
	}
	first, known := taken[text]
	switch {
	case len(text) < minToken:
		p.add(key, "", fmt.Sprintf("has a token of %d characters, at least %d are needed", len(text), minToken), nextToken)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		p.add(key, "", "has a token with a blank in it, which no request can carry", nextToken)
	case known:
		p.add(key, "", "has the token of "+first, "give each its own; "+nextToken)
	default:
		taken[text] = prefix
	}
}

func (c *Config) validateTenantRepos(p *problems, key string, t Tenant) {
	if !p.ok(key) {
		return
	}
	if len(t.Repos) == 0 && c.Origin(key) != OriginDefault {
		p.add(key, "", "is empty, so the token would see nothing", "name repositories, or remove it for all of the installation")
	}
	for _, r := range t.Repos {
		if !repoForm.MatchString(r) {
			p.add(key, quote(r), "is not a repository", nextRepo)
		}
	}
}
