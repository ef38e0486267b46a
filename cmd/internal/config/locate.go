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
		case f.Type.Kind() == reflect.Struct:
			empty = emptyLists(f.Type)
		}
		of = append(of, reflect.StructField{Name: f.Name, Type: empty, Tag: f.Tag})
	}
	return reflect.New(reflect.StructOf(of)).Interface()
}

// emptyLists is a section with its lists and none of its other keys.
func emptyLists(section reflect.Type) reflect.Type {
	var of []reflect.StructField
	for i := range section.NumField() {
		if f := section.Field(i); isList(f.Type) {
			of = append(of, reflect.StructField{Name: f.Name, Type: reflect.TypeFor[[]struct{}](), Tag: f.Tag})
		}
	}
	return reflect.StructOf(of)
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
		name := strings.Join(key[:min(len(key), 2)], ".") // what is below is of a key that is no table
		for _, l := range lists(c) {
			depth := 1 + strings.Count(l.name, ".")
			if len(key) > depth && strings.Join(key[:depth], ".") == l.name {
				name = listKey(l.name, elementAt(lines, l.name, row)) + "." + key[depth]
			}
		}
		if _, ok := c.lines[name]; !ok {
			c.lines[name] = row
		}
	}
}

// elementAt returns the index of the list's table that a line belongs to.
func elementAt(lines [][]byte, list string, row int) int {
	header := regexp.MustCompile(`^\s*\[\[\s*["']?` + strings.ReplaceAll(list, ".", `["']?\s*\.\s*["']?`) + `["']?\s*\]\]`)
	index := -1
	for _, line := range lines[:min(row, len(lines))] {
		if header.Match(line) {
			index++
		}
	}
	return max(index, 0)
}
