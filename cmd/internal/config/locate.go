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
func skeleton() any { return reflect.New(emptied(reflect.TypeFor[Config]())).Interface() }

// emptied is a table with the tables and the lists in it, and none of its
// other keys.
func emptied(t reflect.Type) reflect.Type {
	if isList(t) {
		return reflect.SliceOf(emptied(t.Elem()))
	}
	var of []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		if table := f.Type.Kind() == reflect.Struct; f.IsExported() && (table || isList(f.Type)) {
			of = append(of, reflect.StructField{Name: f.Name, Type: emptied(f.Type), Tag: f.Tag})
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
				name = listKey(l.name, elementAt(lines, l.name, row)) + "." + l.leaf(key[depth:])
			}
		}
		if _, ok := c.lines[name]; !ok {
			c.lines[name] = row
		}
	}
}

// leaf is the part of a path within a list's table that is a key: two steps of
// it where the first is a table.
func (l list) leaf(path []string) string {
	of := l.val.Type().Elem()
	for i := range of.NumField() {
		if f := of.Field(i); f.Tag.Get("toml") == path[0] && f.Type.Kind() == reflect.Struct {
			return strings.Join(path[:min(len(path), 2)], ".")
		}
	}
	return path[0]
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
