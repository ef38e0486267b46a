package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// knownKeys lists every key there is, dotted; those of a list as
// "familiars.id".
func knownKeys() []string {
	var out []string
	c := &Config{}
	for _, s := range sections(c) {
		for _, f := range s.fields {
			out = append(out, f.key)
		}
	}
	for _, l := range lists(c) {
		for _, f := range fields(l.name, "", reflect.New(l.val.Type().Elem()).Elem()) {
			out = append(out, f.key)
		}
	}
	return out
}

// nearest suggests the known key next to one that is not known. A key that
// another section has by that very name comes first.
func nearest(prefix, name string) string {
	section := index.ReplaceAllString(prefix, "")
	best, bestDistance := "", 1<<30
	for _, known := range knownKeys() {
		d := distance(section+"."+name, known)
		if _, leaf, _ := strings.Cut(known, "."); leaf == name {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = known, d
		}
	}
	return "did you mean " + best + "?"
}

// index matches the index of a list's table in a key.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// nearestVariable suggests the known variable next to one that is not.
func (c *Config) nearestVariable(name string) string {
	best, bestDistance := "", 1<<30
	for _, f := range allFields(c) {
		if d := distance(name, f.env); f.env != "" && d < bestDistance {
			best, bestDistance = f.env, d
		}
	}
	return "did you mean " + best + "?"
}

// unknownSections notes the tables and keys at the top that belay does not
// know.
func unknownSections(tree map[string]any, p *problems) {
	names := tableNames()
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if slices.Contains(names, name) {
			continue
		}
		switch tree[name].(type) {
		case map[string]any, []any:
			best := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
			p.add(name, "", "unknown section", fmt.Sprintf("did you mean %s? there are %s", best, strings.Join(names, ", ")))
		default:
			p.add(name, "", "unknown key", nearestAnywhere(name))
		}
	}
}

// nearestAnywhere suggests a key for one that stands above all sections.
func nearestAnywhere(name string) string {
	best := slices.MinFunc(knownKeys(), func(a, b string) int {
		return distance(name, a[strings.Index(a, ".")+1:]) - distance(name, b[strings.Index(b, ".")+1:])
	})
	return "did you mean " + best + "?"
}

// distance is the Levenshtein distance of two strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
