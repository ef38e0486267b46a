package doctor

import (
	"regexp"
	"strings"

	belay "github.com/belay-run/belay"
)

// NATSConf is what belay reads of a nats.conf without starting a server on it.
// Files that it includes are not looked at.
type NATSConf struct {
	// Host and Port are those of the client listener; 4222 by default.
	Host string
	Port string
	// SyncInterval is the value of sync_interval in jetstream, "" if it has
	// none, which belay's own server takes for "always".
	SyncInterval string
}

// DefaultNATSConf reads the nats.conf that is built in.
func DefaultNATSConf() NATSConf { return ParseNATSConf(belay.NATSConf) }

// natsToken matches a comment, a quoted string, a bracket, or a word.
var natsToken = regexp.MustCompile(`#[^\n]*|//[^\n]*|"[^"\n]*"|'[^'\n]*'|[{}\[\]]|;|,|[^\s{}\[\]:=,;"'#]+(?::[^\s{}\[\]:=,;"'#]+)*`)

// ParseNATSConf reads the text of a nats.conf.
func ParseNATSConf(text string) NATSConf {
	c := NATSConf{Host: "127.0.0.1", Port: "4222"}
	var blocks []string // the names of the blocks around
	key := ""           // the word before, if it can be a key
	for _, tok := range natsToken.FindAllString(text, -1) {
		switch {
		case tok[0] == '#' || strings.HasPrefix(tok, "//"):
		case tok == "{" || tok == "[":
			blocks, key = append(blocks, strings.ToLower(key)), ""
		case tok == "}" || tok == "]":
			if len(blocks) > 0 {
				blocks = blocks[:len(blocks)-1]
			}
			key = ""
		case tok == ";" || tok == ",":
			key = ""
		case key == "":
			key = strings.Trim(tok, `"'`)
			if k, v, ok := strings.Cut(key, ":"); ok { // written as key:value
				c.set(blocks, k, v)
				key = ""
			}
		default:
			c.set(blocks, key, strings.Trim(tok, `"'`))
			key = ""
		}
	}
	return c
}

// set takes a value if it is one of those that count.
func (c *NATSConf) set(blocks []string, key, value string) {
	switch key = strings.ToLower(key); {
	case strings.HasPrefix(value, "$"): // a variable, not known here
	case len(blocks) == 0 && (key == "host" || key == "net"):
		c.Host = value
	case len(blocks) == 0 && key == "port":
		c.Port = value
	case len(blocks) == 0 && key == "listen":
		c.listen(value)
	case len(blocks) == 1 && blocks[0] == "jetstream" && (key == "sync_interval" || key == "sync"):
		c.SyncInterval = value
	}
}

// listen takes an address, or a port alone.
func (c *NATSConf) listen(value string) {
	i := strings.LastIndex(value, ":")
	if i >= 0 {
		c.Host = strings.Trim(value[:i], "[]")
	}
	c.Port = value[i+1:]
}
