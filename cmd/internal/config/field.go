package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// field is one key: where its value goes, and its tags.
type field struct {
	key  string // dotted
	name string // within its section or list, dotted if a table there holds it
	env  string // empty where the environment cannot set it
	val  reflect.Value
	tag  reflect.StructTag
}

// section is one table of the file.
type section struct {
	name   string
	fields []field
}

// sections lists the tables of c in the order of the struct.
func sections(c *Config) []section {
	v := reflect.ValueOf(c).Elem()
	var out []section
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("toml")
		if v.Field(i).Kind() != reflect.Struct || name == "" {
			continue
		}
		out = append(out, section{name, fields(name, "BELAY_"+strings.ToUpper(name)+"_", v.Field(i))})
	}
	return out
}

// fields lists the keys of one struct. An empty env prefix means that the
// environment cannot set them.
func fields(prefix, env string, v reflect.Value) []field {
	var out []field
	for i := range v.NumField() {
		if isList(v.Field(i).Type()) {
			continue
		}
		tag := v.Type().Field(i).Tag
		f := field{name: tag.Get("toml"), val: v.Field(i), tag: tag}
		f.key = prefix + "." + f.name
		if v.Field(i).Kind() == reflect.Struct {
			out = append(out, f.inner(env)...)
			continue
		}
		if env != "" && v.Field(i).Kind() != reflect.Map {
			f.env = env + strings.ToUpper(f.name)
		}
		out = append(out, f)
	}
	return out
}

// inner are the keys of a table that stands in another.
func (f field) inner(env string) []field {
	if env != "" {
		env += strings.ToUpper(f.name) + "_"
	}
	in := fields(f.key, env, f.val)
	for i := range in {
		in[i].name = f.name + "." + in[i].name
	}
	return in
}

// secret reports whether the value must not be shown.
func (f field) secret() bool {
	t := f.val.Type()
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t == reflect.TypeFor[redact.Secret]()
}

// setDefault sets the value of the `default` tag. A tag that is wrong is a
// programmer's error, which every test would find.
func (f field) setDefault() {
	if d, ok := f.tag.Lookup("default"); ok {
		if msg := f.setText(d); msg != "" {
			panic("default of " + f.key + ": " + msg)
		}
	}
}

// setText sets a value from the environment or a tag. It returns what is
// wrong, empty when nothing is.
func (f field) setText(s string) string {
	switch f.val.Interface().(type) {
	case bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return "is not true or false"
		}
		return f.set(b)
	case int, int64:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return "is not a whole number"
		}
		return f.set(n)
	case []string, []redact.Secret:
		list := []any{}
		for _, part := range split(s) {
			list = append(list, part)
		}
		return f.set(list)
	}
	return f.set(s)
}

// set sets a value as the TOML library decodes it, and returns what is wrong.
func (f field) set(v any) string {
	switch dst := f.val.Addr().Interface().(type) {
	case *string:
		return f.setString(dst, v)
	case *redact.Secret:
		s, ok := v.(string)
		*dst = redact.Secret(s)
		return unless(ok, "is not a string")
	case *bool:
		b, ok := v.(bool)
		*dst = b
		return unless(ok, "is not true or false")
	case *int:
		n, ok := v.(int64)
		if !ok || int64(int(n)) != n {
			return "is not a whole number"
		}
		return f.setNumber(n)
	case *int64:
		n, ok := v.(int64)
		if !ok {
			return "is not a whole number"
		}
		return f.setNumber(n)
	case *time.Duration:
		return f.setDuration(dst, v)
	case *[]string:
		return setList(dst, v)
	case *[]redact.Secret:
		return setList(dst, v)
	case *map[string]redact.Secret:
		return setTable(dst, v)
	case *map[string]string:
		return setTable(dst, v)
	}
	panic("no way to set " + f.key)
}

func (f field) setString(dst *string, v any) string {
	s, ok := v.(string)
	if !ok {
		return "is not a string"
	}
	if enum := f.tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), s) {
		return "is not one of " + strings.ReplaceAll(enum, ",", ", ")
	}
	*dst = s
	return ""
}

func (f field) setNumber(n int64) string {
	if lo, ok := f.tag.Lookup("min"); ok && n < number(lo) {
		return "is less than " + lo
	}
	if hi, ok := f.tag.Lookup("max"); ok && n > number(hi) {
		return "is more than " + hi
	}
	f.val.SetInt(n)
	return ""
}

func (f field) setDuration(dst *time.Duration, v any) string {
	s, ok := v.(string)
	if !ok {
		return "is not a duration in quotes"
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return "is not a duration"
	}
	if lo, ok := f.tag.Lookup("min"); ok {
		if least, err := time.ParseDuration(lo); err != nil || d < least {
			return "is shorter than " + lo
		}
	}
	if hi, ok := f.tag.Lookup("max"); ok {
		if most, err := time.ParseDuration(hi); err != nil || d > most {
			return "is longer than " + hi
		}
	}
	*dst = d
	return ""
}

// setList sets a list of strings.
func setList[T ~string](dst *[]T, v any) string {
	list, ok := v.([]any)
	if !ok {
		return "is not a list of strings"
	}
	out := make([]T, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return "is not a list of strings"
		}
		out = append(out, T(s))
	}
	*dst = out
	return ""
}

// setTable sets a table of strings.
func setTable[T ~string](dst *map[string]T, v any) string {
	table, ok := v.(map[string]any)
	if !ok {
		return "is not a table of strings"
	}
	out := make(map[string]T, len(table))
	for k, e := range table {
		s, ok := e.(string)
		if !ok {
			return fmt.Sprintf("is not a table of strings (%s is none)", k)
		}
		out[k] = T(s)
	}
	*dst = out
	return ""
}

// hint says how a value of the field is written.
func (f field) hint() string {
	switch f.val.Interface().(type) {
	case bool:
		return "write true or false, without quotes"
	case int, int64:
		if lo, ok := f.tag.Lookup("min"); ok {
			return "write a whole number from " + lo + " on, without quotes"
		}
		return "write a whole number, without quotes"
	case time.Duration:
		if hi, ok := f.tag.Lookup("max"); ok {
			return "write a duration from " + f.tag.Get("min") + " to " + hi + `, such as "20s"`
		}
		return `write a duration of at least ` + f.tag.Get("min") + `, such as "90s", "10m" or "1h30m"`
	case []string, []redact.Secret:
		return `write a list of strings, such as ["a", "b"]`
	case map[string]redact.Secret, map[string]string:
		return `write a table of strings, such as { NAME = "value" }`
	}
	if enum := f.tag.Get("enum"); enum != "" {
		return `write "` + strings.ReplaceAll(enum, ",", `" or "`) + `"`
	}
	return "write a string in quotes"
}

func unless(ok bool, message string) string {
	if ok {
		return ""
	}
	return message
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
