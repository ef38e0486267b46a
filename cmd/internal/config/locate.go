package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// skeleton has the tables of Config and none of their keys, so that a strict
// decoder names the place of every one.
type skeleton struct {
	Server    struct{}   `toml:"server"`
	Storage   struct{}   `toml:"storage"`
	NATS      struct{}   `toml:"nats"`
	GitHub    struct{}   `toml:"github"`
	Worker    struct{}   `toml:"worker"`
	API       struct{}   `toml:"api"`
	Review    struct{}   `toml:"review"`
	Familiars []struct{} `toml:"familiars"`
}

// familiarHeader matches the line that begins a familiar.
var familiarHeader = regexp.MustCompile(`^\s*\[\[\s*["']?familiars["']?\s*\]\]`)

// locate finds the line of each key. A file whose tables are not tables has no
// lines: that problem names the table.
func (c *Config) locate(src []byte) {
	err := toml.NewDecoder(bytes.NewReader(src)).DisallowUnknownFields().Decode(&skeleton{})
	var missing *toml.StrictMissingError
	if !errors.As(err, &missing) {
		return
	}
	lines := bytes.Split(src, []byte("\n"))
	for _, e := range missing.Errors {
		row, _ := e.Position()
		key := []string(e.Key())
		if len(key) > 2 {
			key = key[:2] // a dotted key below one that is not a table
		}
		if key[0] == familiarsKey {
			key[0] = fmt.Sprintf("%s[%d]", familiarsKey, familiarAt(lines, row))
		}
		name := strings.Join(key, ".")
		if _, ok := c.lines[name]; !ok {
			c.lines[name] = row
		}
	}
}

// familiarAt returns the index of the familiar that a line belongs to.
func familiarAt(lines [][]byte, row int) int {
	index := -1
	for _, line := range lines[:min(row, len(lines))] {
		if familiarHeader.Match(line) {
			index++
		}
	}
	return max(index, 0)
}
