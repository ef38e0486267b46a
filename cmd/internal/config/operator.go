package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/redact"
)

// Operator says who may propose operator tasks, and where their issues are
// created. Without a key and a repository nothing is taken (OT-93).
type Operator struct {
	// Keys sign the requests of operators.
	Keys []OperatorKey `toml:"keys" live:"yes"`
	// Repo is the one repository that issues are created in: owner/name.
	Repo string `toml:"repo"`
	// Tenant0 is the tenant of a repository that Tenants does not name.
	Tenant0 string `toml:"tenant0" default:"invotek" live:"yes"`
	// Tenants are the tenants of repositories, by owner/name.
	Tenants map[string]string `toml:"tenants" live:"yes"`
	// Reserved are words that are no tenant's id.
	Reserved []string `toml:"reserved" live:"yes"`
	// Labels are put on each issue that is created; one that triggers a
	// familiar makes it work at once.
	Labels []string `toml:"labels"`
	// Callback is the name of the callback that is told of created issues;
	// empty for none.
	Callback string `toml:"callback"`
}

// OperatorKey is one key that signs requests.
type OperatorKey struct {
	ID string `toml:"id"`
	// Secret is, after Load, that of SecretFile where one is named.
	Secret     redact.Secret `toml:"secret"`
	SecretFile string        `toml:"secret_file"`
}

// repoForm matches owner/name as GitHub has them.
var repoForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)

const (
	nextRepo   = `write owner/name as GitHub spells it, such as "acme/site"`
	nextTenant = `write 2 to 20 letters and digits that begin with a letter, such as "invotek"; not pg…, kube… or a word of operator.reserved`
)

// RepoTenant is the tenant that the configuration has for a repository; one
// that is blank or not canonical is an error, and never tenant 0 instead
// (OT-29…32).
func (o Operator) RepoTenant(repo string) (string, error) {
	answer, mapped := "", false
	for name, tenant := range o.Tenants {
		if strings.EqualFold(name, repo) { // as on GitHub
			answer, mapped = tenant, true
		}
	}
	return operator.RepoTenant(answer, mapped, o.Tenant0, o.reserved())
}

// reserved are the words in the spelling of tenant ids.
func (o Operator) reserved() []string {
	out := make([]string, len(o.Reserved))
	for i, w := range o.Reserved {
		out[i] = strings.ToLower(strings.TrimSpace(w))
	}
	return out
}

func (c *Config) validateOperator(p *problems) {
	o := c.Operator
	ids := map[string]int{}
	for i, k := range o.Keys {
		key := listKey("operator.keys", i)
		if !p.ok(key) {
			continue
		}
		checkName(p, key+".id", k.ID, nameForm, "write letters, digits, - and _, such as \"worker\"", ids, i)
		c.validateOperatorKey(p, key, k)
	}
	switch {
	case !p.ok("operator.repo"):
	case o.Repo == "" && len(o.Keys) > 0:
		p.add("operator.repo", "", "is not set, but operator.keys are", nextRepo)
	case o.Repo != "" && !repoForm.MatchString(o.Repo):
		p.add("operator.repo", quote(o.Repo), "is not a repository", nextRepo)
	}
	c.validateTenants(p)
	if _, ok := c.CallbackByName(o.Callback); o.Callback != "" && !ok && p.ok("callbacks", "operator.callback") {
		p.add("operator.callback", quote(o.Callback), "is not a callback", c.nextCallback(o.Callback))
	}
}

func (c *Config) validateOperatorKey(p *problems, prefix string, k OperatorKey) {
	key := prefix + ".secret"
	if c.Origin(key+"_file").rank() > c.Origin(key).rank() {
		key += "_file"
	}
	switch {
	case !p.ok(prefix+".secret", prefix+".secret_file"):
	case k.Secret == "" && c.Origin(key) == OriginDefault:
		p.add(key, "", "is not set", "set secret or secret_file; make one with `openssl rand -hex 32`")
	default:
		checkSecret(p, key, k.Secret)
	}
}

// validateTenants refuses what would make every operator task Forbidden.
func (c *Config) validateTenants(p *problems) {
	o := c.Operator
	if slices.Contains(o.reserved(), "") {
		p.add("operator.reserved", "", "has an empty word", "remove it")
	}
	if _, err := operator.CanonicalTenant(o.Tenant0, o.reserved()); err != nil && p.ok("operator.tenant0") {
		p.add("operator.tenant0", quote(o.Tenant0), "is not a tenant's id", nextTenant)
	}
	const key = "operator.tenants"
	if !p.ok(key) {
		return
	}
	seen := map[string]string{}
	for _, repo := range slices.Sorted(maps.Keys(o.Tenants)) {
		first, taken := seen[strings.ToLower(repo)]
		switch _, err := operator.CanonicalTenant(o.Tenants[repo], o.reserved()); {
		case !repoForm.MatchString(repo):
			p.add(key, quote(repo), "is not a repository", `write { "acme/site" = "invotek" }`)
		case taken:
			p.add(key, quote(repo), "is already there as "+quote(first), "keep one of the two")
		case err != nil:
			p.add(key, quote(repo+" = "+o.Tenants[repo]), "does not name a tenant", nextTenant)
		}
		seen[strings.ToLower(repo)] = repo
	}
}
