package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/belay-run/belay/kv/redact"
)

// validate notes what cannot work, over all sections.
func (c *Config) validate(p *problems) {
	c.validateServer(p)
	c.validateStorage(p)
	c.validateNATS(p)
	c.validateGitHub(p)
	c.validateSources(p)
	c.validateWorker(p)
	c.validateAPI(p)
	c.validateAPITenants(p)
	c.validateCallbacks(p)
	c.validateFamiliars(p)
	c.validateReview(p)
	c.validateInstallations(p)
	c.validateOperator(p)
	c.validateTracing(p)
	c.validateRules(p)
}

func (c *Config) validateServer(p *problems) {
	s := c.Server
	checkAddress(p, "server.listen", s.Listen)
	checkAddress(p, "server.admin_listen", s.AdminListen)
	if p.ok("server.role", "nats.url") && s.Role != RoleAll && c.Embedded() {
		p.add("server.role", quote(s.Role), "is one part of a fleet, and without nats.url this process is alone",
			"set url under [nats], or leave role (or --role) out")
	}
	if !p.ok("server.listen", "server.admin_listen", "server.allow_public", "api.mode") {
		return
	}
	if s.Listen == s.AdminListen && !strings.HasSuffix(s.Listen, ":0") {
		p.add("server.admin_listen", quote(s.AdminListen), "is the address of server.listen", "give it another port")
	}
	if c.Ingests() && !Loopback(s.Listen) && c.API.Mode == ModeOpen && !s.AllowPublic {
		p.add("server.listen", quote(s.Listen), "lets others reach an API that asks for no token",
			`set mode = "token" under [api], listen on 127.0.0.1, or set allow_public = true under [server] to accept it`)
	}
}

// Loopback reports whether an address to listen on is reached from this host
// only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func checkAddress(p *problems, key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil && p.ok(key) {
		p.add(key, quote(addr), "is not host:port", `write an address such as "127.0.0.1:3000"`)
	}
}

func (c *Config) validateStorage(p *problems) {
	s := c.Storage
	if s.Dir == "" {
		p.add("storage.dir", quote(s.Dir), "is empty", "name the folder for belay's data")
	}
	if !p.ok("storage.task_retention_days", "storage.delivery_retention_days", "storage.dedupe_days") {
		return
	}
	if s.DeliveryRetentionDays < s.TaskRetentionDays {
		p.add("storage.delivery_retention_days", strconv.Itoa(s.DeliveryRetentionDays),
			fmt.Sprintf("is less than storage.task_retention_days = %d", s.TaskRetentionDays),
			"keep deliveries at least as long as their tasks")
	}
	if s.DedupeDays < s.DeliveryRetentionDays {
		p.add("storage.dedupe_days", strconv.Itoa(s.DedupeDays),
			fmt.Sprintf("is less than storage.delivery_retention_days = %d", s.DeliveryRetentionDays),
			"remember ids at least as long as deliveries, or a replay would make a second task")
	}
}

func (c *Config) validateNATS(p *problems) {
	n := c.NATS
	for _, u := range c.NATSURLs() {
		if !isURL(u, "nats", "tls", "ws", "wss") {
			p.add("nats.url", quote(redactURLs(u)), "is not a NATS address", `write one such as "nats://nats.example:4222"`)
		}
	}
	if n.MonitoringURL != "" && !isURL(n.MonitoringURL, "http", "https") {
		p.add("nats.monitoring_url", quote(n.MonitoringURL), "is not an http address", `write one such as "http://127.0.0.1:8222"`)
	}
	if n.URL != "" && n.Config != "" {
		p.add("nats.config", quote(n.Config), "is for the embedded server, and nats.url names another", "keep one of the two")
	}
	if n.URL == "" {
		external := []struct{ key, value string }{
			{"nats.creds_file", n.CredsFile}, {"nats.tls_ca", n.TLSCA}, {"nats.tls_cert", n.TLSCert}, {"nats.tls_key", n.TLSKey},
		}
		for _, e := range external {
			if e.value != "" {
				p.add(e.key, quote(e.value), "is for an external server, and nats.url is not set", "set url under [nats], or remove it")
			}
		}
	}
	if (n.TLSCert == "") != (n.TLSKey == "") {
		p.add("nats.tls_cert", quote(n.TLSCert), "goes together with nats.tls_key", "set both or none")
	}
}

func (c *Config) validateWorker(p *problems) {
	if w := c.Worker; w.RunAs != "" && !runAs.MatchString(w.RunAs) {
		p.add("worker.run_as", quote(w.RunAs), "is not a user", `write a name, a uid, or "uid:gid"`)
	}
}

// runAs matches a user's name, a uid, or uid:gid.
var runAs = regexp.MustCompile(`^([a-z_][a-z0-9_.-]{0,31}|[0-9]{1,10}(:[0-9]{1,10})?)$`)

func (c *Config) validateAPI(p *problems) {
	a := c.API
	if !p.ok("api.mode", "api.service_token", "api.service_token_file") {
		return
	}
	if c.Ingests() && a.Mode == ModeToken && a.ServiceToken == "" && len(a.Tenants) == 0 {
		p.add("api.mode", quote(a.Mode), "needs a token", "set service_token or service_token_file under [api], or add [[api.tenants]]")
	}
	key := "api.service_token"
	if c.Origin("api.service_token_file").rank() > c.Origin(key).rank() {
		key = "api.service_token_file"
	}
	if a.ServiceToken != "" {
		checkSecret(p, key, a.ServiceToken)
	}
}

// placeholders are secrets of examples, in lower case.
var placeholders = []string{
	"changeme", "change-me", "change_me", "secret", "password", "token", "todo", "example", "replace-me", "replaceme",
	"your-secret", "your-webhook-secret", "your_webhook_secret", "webhook-secret", "webhook_secret", "my-secret", "mysecret",
}

// checkSecret refuses an empty secret and one that is only a placeholder.
func checkSecret(p *problems, key string, s redact.Secret) {
	v := strings.ToLower(strings.TrimSpace(s.Reveal()))
	const next = "make one with `openssl rand -hex 32`"
	switch {
	case v == "":
		p.add(key, "", "has an empty secret", next)
	case slices.Contains(placeholders, v), bracketed.MatchString(v):
		p.add(key, "", "has a placeholder for a secret", next)
	}
}

// bracketed matches <secret>, [secret], ${SECRET} and a row of x or *.
var bracketed = regexp.MustCompile(`^(<.*>|\[.*\]|\$\{.*\}|\{\{.*\}\}|x+|\*+)$`)

func (c *Config) validateReview(p *problems) {
	c.checkFamiliar(p, "review.familiar", c.Review.Familiar)
}

func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}

// quote writes a value as TOML does, cut where it is long.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strconv.Quote(s)
}
