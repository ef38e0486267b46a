package config

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// What Print writes in place of a secret. Loading either back is a problem,
// not a secret.
const (
	secretSet   = "[set]"
	secretUnset = "[unset]"
)

// Print writes the configuration as TOML, each key with its origin as a
// comment. Of secrets it only says whether they are set.
func (c *Config) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i, s := range sections(c) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "[%s]\n", s.name)
		c.printFields(b, s.fields)
	}
	for _, l := range lists(c) {
		for i := range l.val.Len() {
			fmt.Fprintf(b, "\n[[%s]]\n", l.name)
			c.printFields(b, l.fields(i))
		}
	}
	return b.Flush()
}

func (c *Config) printFields(w io.Writer, fs []field) {
	for _, f := range fs {
		fmt.Fprintf(w, "%s = %s # %s\n", f.name, f.text(c.Origin(f.key)), c.Origin(f.key))
	}
}

// text writes the value as TOML. A secret that came from a file of its own is
// shown at the key of that file only.
func (f field) text(o Origin) string {
	switch v := f.val.Interface().(type) {
	case string:
		return tomlString(f.shown(v))
	case redact.Secret:
		return tomlString(setOrUnset(v != "" && o != OriginDefault))
	case time.Duration:
		return tomlString(duration(v))
	case []string:
		return tomlList(v)
	case []redact.Secret:
		if o == OriginDefault || len(v) == 0 {
			return tomlList([]string{secretUnset})
		}
		return tomlList(slices.Repeat([]string{secretSet}, len(v)))
	case map[string]redact.Secret:
		return tomlTable(v, func(s redact.Secret) string { return setOrUnset(s != "") })
	case map[string]string:
		return tomlTable(v, func(s string) string { return s })
	default:
		return fmt.Sprint(v)
	}
}

func setOrUnset(set bool) string {
	if set {
		return secretSet
	}
	return secretUnset
}

// duration writes d without the units that are zero: "10m", not "10m0s".
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// tomlString writes a string of TOML, in double quotes. Control characters are
// escaped as TOML does it, so that no value reaches the terminal raw.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tomlList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// tomlTable writes a table, its values as show has them.
func tomlTable[T ~string](table map[string]T, show func(T) string) string {
	if len(table) == 0 {
		return "{}"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := name
		if !variable.MatchString(name) {
			key = tomlString(name)
		}
		parts = append(parts, key+" = "+tomlString(show(table[name])))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
