package config

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// skeleton is a value with the tables of Config and none of their keys, so
// that a strict decoder names the place of every one.
func skeleton() any {
	var of []reflect.StructField
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		empty := reflect.TypeFor[struct{}]()
		switch {
		case f.Tag.Get("toml") == "-" || !f.IsExported():
			continue
		case f.Type.Kind() == reflect.Slice:
			empty = reflect.SliceOf(empty)
		}
		of = append(of, reflect.StructField{Name: f.Name, Type: empty, Tag: f.Tag})
	}
	return reflect.New(reflect.StructOf(of)).Interface()
}

// locate finds the line of each key. A file whose tables are not tables has no
// lines: that problem names the table.
func (c *Config) locate(src []byte) {
	err := toml.NewDecoder(bytes.NewReader(src)).DisallowUnknownFields().Decode(skeleton())
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
		for _, l := range lists(c) {
			if key[0] == l.name {
				key[0] = listKey(l.name, elementAt(lines, l.name, row))
			}
		}
		name := strings.Join(key, ".")
		if _, ok := c.lines[name]; !ok {
			c.lines[name] = row
		}
	}
}

// elementAt returns the index of the list's table that a line belongs to.
func elementAt(lines [][]byte, list string, row int) int {
	header := regexp.MustCompile(`^\s*\[\[\s*["']?` + list + `["']?\s*\]\]`)
	index := -1
	for _, line := range lines[:min(row, len(lines))] {
		if header.Match(line) {
			index++
		}
	}
	return max(index, 0)
}
