package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// list is one list of tables of the file, such as [[familiars]], or within a
// section [[operator.keys]]. The first key of each table names it.
type list struct {
	name string        // dotted in a section
	val  reflect.Value // the slice
}

// lists are those of c in the order of the struct.
func lists(c *Config) []list { return listsIn("", reflect.ValueOf(c).Elem()) }

// listsIn are the lists of a struct and of the sections in it.
func listsIn(prefix string, v reflect.Value) []list {
	var out []list
	for i := range v.NumField() {
		f := v.Field(i)
		name := v.Type().Field(i).Tag.Get("toml")
		switch {
		case name == "" || name == "-":
		case isList(f.Type()):
			out = append(out, list{prefix + name, f})
		case f.Kind() == reflect.Struct && prefix == "":
			out = append(out, listsIn(name+".", f)...)
		}
	}
	return out
}

// isList reports whether values of a type are a list of tables.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// in finds the list in a file's tree.
func (l list) in(tree map[string]any) (any, bool) {
	section, name, nested := strings.Cut(l.name, ".")
	if nested {
		tree, _ = tree[section].(map[string]any)
		section = name
	}
	v, ok := tree[section]
	return v, ok
}

// tableNames are the names of all sections and lists.
func tableNames() []string {
	c := &Config{}
	var out []string
	for _, s := range sections(c) {
		out = append(out, s.name)
	}
	for _, l := range lists(c) {
		out = append(out, l.name)
	}
	return out
}

// allFields are the keys of all sections, and of the tables that the lists
// have.
func allFields(c *Config) []field {
	var out []field
	for _, s := range sections(c) {
		out = append(out, s.fields...)
	}
	for _, l := range lists(c) {
		for i := range l.val.Len() {
			out = append(out, l.fields(i)...)
		}
	}
	return out
}

// listKey is the dotted key of a list's table at index i.
func listKey(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

// singular is what one table of a list is called.
func singular(list string) string {
	return strings.TrimSuffix(list[strings.LastIndex(list, ".")+1:], "s")
}

// fields are the keys of the table at index i. A table that has a name can be
// set by the environment as well: BELAY_CALLBACKS_<NAME>_SECRETS. The name
// itself cannot.
func (l list) fields(i int) []field {
	v := l.val.Index(i)
	env := ""
	if name := fmt.Sprint(v.Field(0)); nameForm.MatchString(name) {
		env = "BELAY_" + strings.ToUpper(strings.ReplaceAll(l.name, ".", "_")) + "_" + variablePart(name) + "_"
	}
	out := fields(listKey(l.name, i), env, v)
	out[0].env = ""
	return out
}

// nameForm matches the names of a list's tables: they stand in keys,
// addresses, folders and variables.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// variablePart is how a table's name stands in a variable's.
func variablePart(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// readList sets the tables of one list of the file.
func (c *Config) readList(l list, v any, p *problems) {
	c.origins[l.name] = OriginFile
	next := "write [[" + l.name + "]], with two brackets, above each"
	tables, ok := v.([]any)
	if !ok {
		p.add(l.name, "", "is not a list of "+l.name, next)
		return
	}
	l.val.Set(reflect.MakeSlice(l.val.Type(), len(tables), len(tables)))
	for i, e := range tables {
		prefix := listKey(l.name, i)
		table, ok := e.(map[string]any)
		if !ok {
			p.add(prefix, "", "is not a "+singular(l.name), next)
			continue
		}
		for _, f := range l.fields(i) {
			f.setDefault()
		}
		c.readTable(prefix, l.fields(i), table, p)
	}
}
