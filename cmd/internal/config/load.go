package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// DefaultFile is read from the working directory when no file is named.
const DefaultFile = "belay.toml"

// fileVar names the file in the environment.
const fileVar = "BELAY_CONFIG"

// Find returns the file to load: the one of --config, else of $BELAY_CONFIG,
// else DefaultFile if there is one, else "".
func Find(flag string, environ []string) string {
	if flag != "" {
		return flag
	}
	if path := lookup(environ, fileVar); path != "" {
		return path
	}
	if _, err := os.Stat(DefaultFile); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return DefaultFile
	}
	return ""
}

// Load reads a file and the environment, as os.Environ gives it, and checks
// the result. Without a path it starts from the defaults.
//
// It fails with an error of kind ErrUnreadable and no Config, or with an
// *Error that holds every problem and the Config as far as it was understood,
// for doctor to look on.
func Load(path string, environ []string) (*Config, error) {
	c := blank()
	c.File = path
	p := &problems{lines: c.lines, origins: c.origins}
	if path == "" {
		c.Familiars = []Familiar{exampleFamiliar()}
	} else if err := c.readFile(path, p); err != nil {
		return nil, err
	}
	c.nameTenants() // variables are named by it
	c.readEnviron(environ, p)
	c.readSecretFiles(p)
	host, err := os.Hostname()
	if err != nil {
		host = "belay"
	}
	c.derive(host)
	c.validate(p)
	return c, p.err(path)
}

// Default is the configuration without a file and without an environment:
// loopback, one familiar `belay` with the label `belay`, and data in dir
// ("data" if empty). EnsureSecret completes it.
func Default(dir string) *Config {
	c := blank()
	c.Familiars = []Familiar{exampleFamiliar()}
	if dir != "" {
		c.Storage.Dir = dir
	}
	c.derive("belay")
	return c
}

// blank is a configuration of nothing but defaults, its lists empty.
func blank() *Config {
	c := &Config{origins: map[string]Origin{}, lines: map[string]int{}}
	for _, s := range sections(c) {
		for _, f := range s.fields {
			f.setDefault()
		}
	}
	return c
}

func exampleFamiliar() Familiar {
	return Familiar{ID: "belay", DisplayName: "Belay", BotUsername: "belay[bot]", TriggerLabels: []string{"belay"}}
}

// readFile sets what the file has.
func (c *Config) readFile(path string, p *problems) error {
	src, err := os.ReadFile(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return &unreadable{fmt.Sprintf("%s: %v: check --config, $%s and the file's permissions", path, err, fileVar), err}
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(src, &tree); err != nil {
		return syntaxError(path, err)
	}
	c.locate(src)
	for _, s := range sections(c) {
		v, ok := tree[s.name]
		if !ok {
			continue
		}
		table, ok := v.(map[string]any)
		if !ok {
			p.add(s.name, "", "is not a section", "write ["+s.name+"] on a line of its own, and its keys below")
			continue
		}
		c.readTable(s.name, s.fields, table, p)
	}
	for _, l := range lists(c) {
		if v, ok := l.in(tree); ok {
			c.readList(l, v, p)
		}
	}
	unknownSections(tree, p)
	return nil
}

// syntaxError says where a file is not TOML.
func syntaxError(path string, err error) error {
	where := path
	var de *toml.DecodeError
	if errors.As(err, &de) {
		row, col := de.Position()
		where = fmt.Sprintf("%s: line %d, column %d", path, row, col)
	}
	return &unreadable{fmt.Sprintf("%s: %s: correct the file's TOML", where, strings.TrimPrefix(err.Error(), "toml: ")), err}
}

// readTable sets the fields of one table and notes keys that are not among
// them.
func (c *Config) readTable(prefix string, fs []field, table map[string]any, p *problems) {
	known := map[string]bool{}
	for _, l := range lists(c) {
		if name, ok := strings.CutPrefix(l.name, prefix+"."); ok {
			known[name] = true // readList has it
		}
	}
	inner := map[string][]field{}
	for _, f := range fs {
		name, rest, nested := strings.Cut(f.name, ".")
		known[name] = true
		if nested {
			f.name = rest
			inner[name] = append(inner[name], f)
			continue
		}
		v, ok := table[f.name]
		if !ok {
			continue
		}
		c.origins[f.key] = OriginFile
		if msg := f.set(v); msg != "" {
			p.add(f.key, show(f, v), msg, f.hint())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		c.readInner(prefix+"."+name, name, inner[name], table[name], p)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !known[name] {
			p.add(prefix+"."+name, "", "unknown key", nearest(prefix, name))
		}
	}
}

// readInner sets the fields of a table that stands in another, if it is there.
func (c *Config) readInner(key, name string, fs []field, v any, p *problems) {
	switch table := v.(type) {
	case nil:
	case map[string]any:
		c.readTable(key, fs, table, p)
	default:
		p.add(key, "", "is not a table", "write "+name+" = { "+fs[0].name+" = … }")
	}
}

// readEnviron sets what the environment has, over the file.
func (c *Config) readEnviron(environ []string, p *problems) {
	known := map[string]bool{}
	for _, f := range allFields(c) {
		if f.env == "" {
			continue
		}
		known[f.env] = true
		text := lookup(environ, f.env)
		if text == "" {
			continue
		}
		c.origins[f.key] = envOrigin(f.env)
		if msg := f.setText(text); msg != "" {
			p.add(f.key, show(f, text), msg, f.hint())
		}
	}
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if text == "" || known[name] || !ours(name) {
			continue
		}
		p.add(name, "", "unknown variable", c.nearestVariable(name))
	}
}

// serviceVar matches what Kubernetes and Docker set for a service that is
// called belay-nats or the like.
var serviceVar = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT|PORT_[0-9]+_(TCP|UDP|SCTP))(_[A-Z0-9_]+)?$`)

// ours reports whether a variable can only be meant for a section or a list.
func ours(name string) bool {
	if name == "BELAY_NATS_PASSWORD" || serviceVar.MatchString(name) { // nats.conf reads the password
		return false
	}
	for _, s := range tableNames() {
		if strings.HasPrefix(name, "BELAY_"+strings.ToUpper(s)+"_") {
			return true
		}
	}
	return false
}

// lookup returns a variable, the last one that is there as the shell does.
func lookup(environ []string, name string) string {
	value := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// show writes a value that was found, empty for secrets.
func show(f field, v any) string {
	if f.secret() {
		return ""
	}
	switch v := v.(type) {
	case string:
		return quote(f.shown(v))
	case int64, float64, bool:
		return fmt.Sprint(v)
	}
	return ""
}
