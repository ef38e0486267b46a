package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// Config is a whole configuration, complete with defaults. Relative paths are
// relative to the working directory.
//
// The tags are what the package reads: `default` is the value when nothing is
// set, `min` and `max` bound a number or a duration, `enum` lists the values
// of a string, `hide` names the part of an address that is never shown. A
// struct is a section of the file, a slice of structs a list of tables, whose
// first key names each; a list may stand in a section, and a table of its own
// in either. `live` marks what a reload brings into force; all else needs a
// restart.
type Config struct {
	Server     Server     `toml:"server"`
	Storage    Storage    `toml:"storage"`
	NATS       NATS       `toml:"nats"`
	GitHub     GitHub     `toml:"github"`
	Redelivery Redelivery `toml:"redelivery"`
	Worker     Worker     `toml:"worker"`
	API        API        `toml:"api" live:"yes"`
	Review     Review     `toml:"review" live:"yes"`
	Operator   Operator   `toml:"operator"`
	Tracing    Tracing    `toml:"tracing"`
	Familiars  []Familiar `toml:"familiars" live:"yes"`
	Callbacks  []Callback `toml:"callbacks" live:"yes"`
	Rules      []Rule     `toml:"rules" live:"yes"`
	Sources    []Source   `toml:"sources"`
	// Installations are all that may use belay; none: whoever reaches it.
	Installations []Installation `toml:"installations" live:"yes"`

	// File is the path of the file that was read, empty when there was none.
	File string `toml:"-"`

	origins map[string]Origin // by dotted key; absent means the default
	lines   map[string]int    // by dotted key, of those in the file
}

// Server says where belay listens.
type Server struct {
	// Listen is the address of webhooks, the API and the pages.
	Listen string `toml:"listen" default:"127.0.0.1:3000"`
	// AdminListen is the address of /metrics and the health checks.
	AdminListen string `toml:"admin_listen" default:"127.0.0.1:9464"`
	// Role is what this process does: all of it, or, with a NATS server of its
	// own, one part of a fleet.
	Role string `toml:"role" default:"all" enum:"all,ingest,worker,relay"`
	// AllowPublic permits an open API on an address that others can reach.
	AllowPublic bool `toml:"allow_public"`
}

// Storage says where records are kept, and for how long.
type Storage struct {
	// Dir is the data folder.
	Dir string `toml:"dir" default:"data"`
	// TaskRetentionDays is how long a terminal task is kept.
	TaskRetentionDays int `toml:"task_retention_days" default:"30" min:"1"`
	// DeliveryRetentionDays is how long the log keeps a delivery.
	DeliveryRetentionDays int `toml:"delivery_retention_days" default:"90" min:"1"`
	// DedupeDays is how long a delivery id stands for one task.
	DedupeDays int `toml:"dedupe_days" default:"365" min:"1"`
}

// NATS says which NATS server holds the records: the embedded one, unless URL
// is set.
type NATS struct {
	// URL is one server, or several separated by commas.
	URL string `toml:"url" hide:"user"`
	// Config is a nats.conf for the embedded server instead of the built-in one.
	Config string `toml:"config"`
	// MonitoringURL is where an external server's monitoring listens.
	MonitoringURL string `toml:"monitoring_url"`
	// Replicas is the number of servers that hold each stream.
	Replicas int `toml:"replicas" default:"1" min:"1" max:"5"`
	// CredsFile holds a user's JWT and key.
	CredsFile string `toml:"creds_file"`
	// TLSCA is the file of the authority that signed the server's certificate.
	TLSCA string `toml:"tls_ca"`
	// TLSCert and TLSKey are the files of a client certificate.
	TLSCert string `toml:"tls_cert"`
	TLSKey  string `toml:"tls_key"`
}

// GitHub names the GitHub App and the secrets of its webhook.
type GitHub struct {
	// AppID is 0 where there is no App: tasks then run without surfaces.
	AppID int64 `toml:"app_id" min:"0"`
	// PrivateKey is the App's, in PEM, and PrivateKeyFile holds it; see
	// AppKey.
	PrivateKey     redact.Secret `toml:"private_key"`
	PrivateKeyFile string        `toml:"private_key_file"`
	// WebhookSecrets are all accepted; several allow a rotation. After Load
	// they include those of WebhookSecretFiles.
	WebhookSecrets     []redact.Secret `toml:"webhook_secrets" live:"yes"`
	WebhookSecretFiles []string        `toml:"webhook_secret_files" live:"yes"`
	// WebhookURL is where GitHub reaches the webhook, for the App's manifest.
	WebhookURL string `toml:"webhook_url" live:"yes"`
	// APIURL is the base of the API; on GitHub Enterprise Server
	// https://HOST/api/v3/.
	APIURL string `toml:"api_url" default:"https://api.github.com"`
	// MarkerSecrets sign the markers of belay's own comments: the first signs,
	// all are accepted. None: one is derived from the App's key. After Load
	// they include those of MarkerSecretFiles.
	MarkerSecrets     []redact.Secret `toml:"marker_secrets"`
	MarkerSecretFiles []string        `toml:"marker_secret_files"`
}

// Redelivery says how GitHub is asked again for what it could not deliver. It
// needs the App.
type Redelivery struct {
	Enabled bool `toml:"enabled" default:"true"`
	// Every is the time between two looks at GitHub's list.
	Every time.Duration `toml:"every" default:"1m" min:"10s" max:"1h"`
	// MaxAge is how old a delivery may be; GitHub keeps them for three days.
	MaxAge time.Duration `toml:"max_age" default:"72h" min:"1h" max:"72h"`
}

// Worker says how tasks are run.
type Worker struct {
	// Name is a label for people; the host's name by default.
	Name string `toml:"name"`
	// Concurrency is the number of tasks that run at once.
	Concurrency int `toml:"concurrency" default:"4" min:"1"`
	// WorkspaceDir gets one folder an attempt; `workspaces` in storage.dir by
	// default.
	WorkspaceDir string        `toml:"workspace_dir"`
	Timeout      time.Duration `toml:"timeout" default:"10m" min:"1s"`
	// MaxRetries is how many tries may follow the first.
	MaxRetries   int           `toml:"max_retries" default:"2" min:"0"`
	DrainTimeout time.Duration `toml:"drain_timeout" default:"20s" min:"1s"`
	// RunAs is the user (a name, or uid, or uid:gid) that commands run as.
	RunAs string `toml:"run_as"`
}

// API says who may use the HTTP API.
type API struct {
	// Mode is ModeOpen or ModeToken.
	Mode string `toml:"mode" default:"open" enum:"open,token"`
	// ServiceToken sees everything. After Load it is that of ServiceTokenFile
	// where one is named.
	ServiceToken     redact.Secret `toml:"service_token"`
	ServiceTokenFile string        `toml:"service_token_file"`
	// Tenants see a part of it, each by a token of its own.
	Tenants []Tenant `toml:"tenants"`
}

// The values of API.Mode.
const (
	// ModeOpen answers without a token, and only to this host.
	ModeOpen = "open"
	// ModeToken wants a bearer token.
	ModeToken = "token"
)

// Review says which pull requests are reviewed without being asked.
type Review struct {
	// Familiar is the id of the one that reviews; the first by default.
	Familiar string `toml:"familiar"`
	// PullRequest turns the review lane on.
	PullRequest   bool `toml:"pull_request"`
	IncludeDrafts bool `toml:"include_drafts"`
	// AuditInstruction is passed on in the brief.
	AuditInstruction string `toml:"audit_instruction"`
	// OnSupersede is OnSupersedeFinish or OnSupersedeCancel.
	OnSupersede string `toml:"on_supersede" default:"finish" enum:"finish,cancel"`
}

// The values of Review.OnSupersede: what becomes of a running review that a
// newer one supersedes.
const (
	OnSupersedeFinish = "finish"
	OnSupersedeCancel = "cancel"
)

// Familiar is one bot identity.
type Familiar struct {
	ID string `toml:"id"`
	// DisplayName is the ID by default.
	DisplayName string `toml:"display_name"`
	// BotUsername is its GitHub login, such as "belay[bot]".
	BotUsername   string   `toml:"bot_username"`
	Model         string   `toml:"model"`
	Skills        []string `toml:"skills"`
	TriggerLabels []string `toml:"trigger_labels"`
	// Command is the argv that runs a task, with {brief} and {result} replaced
	// by paths; empty for the built-in echo runner.
	Command []string `toml:"command"`
	// Env is added to the command's environment; values may be secrets.
	Env map[string]redact.Secret `toml:"env"`
	// Timeout is that of [worker] by default.
	Timeout time.Duration `toml:"timeout" min:"1s"`
	// Callback is the name of the callback that is told of its tasks' ends;
	// empty for none.
	Callback string `toml:"callback"`
}

// The values of Server.Role.
const (
	RoleAll = "all"
	// RoleIngest takes webhooks and answers the API.
	RoleIngest = "ingest"
	// RoleWorker admits deliveries and runs tasks.
	RoleWorker = "worker"
	// RoleRelay sends what is to go out and does what one of a fleet has to.
	RoleRelay = "relay"
)

// Roles are the values of Server.Role.
var Roles = []string{RoleAll, RoleIngest, RoleWorker, RoleRelay}

// Ingests reports whether this process takes webhooks and answers the API.
func (c *Config) Ingests() bool { return c.Server.Role == RoleAll || c.Server.Role == RoleIngest }

// Works reports whether this process runs tasks.
func (c *Config) Works() bool { return c.Server.Role == RoleAll || c.Server.Role == RoleWorker }

// Relays reports whether this process sends what is to go out.
func (c *Config) Relays() bool { return c.Server.Role == RoleAll || c.Server.Role == RoleRelay }

// Embedded reports whether belay runs its own nats-server.
func (c *Config) Embedded() bool { return c.NATS.URL == "" }

// NATSURLs returns the servers of [nats] url, nil when embedded.
func (c *Config) NATSURLs() []string { return split(c.NATS.URL) }

// FamiliarByID returns the familiar with that id.
func (c *Config) FamiliarByID(id string) (Familiar, bool) {
	for _, f := range c.Familiars {
		if f.ID == id {
			return f, true
		}
	}
	return Familiar{}, false
}

// Origin says where the value of a key came from.
type Origin string

// The origins. An OriginEnv is followed by the variable's name.
const (
	OriginDefault Origin = "default"
	OriginFile    Origin = "file"
	OriginEnv     Origin = "env"
)

// Origin returns where the value of a dotted key, such as "server.listen",
// came from.
func (c *Config) Origin(key string) Origin {
	if o, ok := c.origins[key]; ok {
		return o
	}
	return OriginDefault
}

// envOrigin is the origin of a value of a variable.
func envOrigin(name string) Origin { return OriginEnv + Origin(" "+name) }

// variable returns the variable of an OriginEnv, else "".
func (o Origin) variable() string {
	name, _ := strings.CutPrefix(string(o), string(OriginEnv)+" ")
	if name == string(o) {
		return ""
	}
	return name
}

// rank orders origins by precedence.
func (o Origin) rank() int {
	switch {
	case o.variable() != "":
		return 2
	case o == OriginFile:
		return 1
	}
	return 0
}

// derive fills what depends on other values or on the host.
func (c *Config) derive(hostname string) {
	if c.Worker.Name == "" {
		c.Worker.Name = hostname
	}
	if c.Worker.WorkspaceDir == "" && c.Storage.Dir != "" {
		c.Worker.WorkspaceDir = filepath.Join(c.Storage.Dir, "workspaces")
	}
	for i := range c.Familiars {
		f := &c.Familiars[i]
		if f.DisplayName == "" {
			f.DisplayName = f.ID
		}
		if f.Timeout == 0 {
			f.Timeout = c.Worker.Timeout
		}
	}
	if c.Review.Familiar == "" && len(c.Familiars) > 0 {
		c.Review.Familiar = c.Familiars[0].ID
	}
	c.deriveRules()
}

// CallbackByName returns the callback with that name.
func (c *Config) CallbackByName(name string) (Callback, bool) {
	for _, b := range c.Callbacks {
		if b.Name == name {
			return b, true
		}
	}
	return Callback{}, false
}

// split separates a list at commas and drops what is empty.
func split(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
