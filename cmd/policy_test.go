package cmd

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path that the packages of this module begin with.
const module = "github.com/belay-run/belay"

// rule is one rule of the house. broken are trees of files, by their path, each
// of which has to break it: a rule that cannot fail is none.
type rule struct {
	name   string
	reason string
	check  func(*tree) []string
	broken []map[string]string
}

// rules are all there are.
func rules() []rule {
	return slices.Concat(importRules(), shapeRules(), textRules())
}

// tree is what a rule looks at.
type tree struct {
	fset  *token.FileSet
	files []*goFile
	texts map[string][]byte // every text file, by its path
}

// goFile is one parsed Go file.
type goFile struct {
	path string // with slashes, from the module's root
	ast  *ast.File
	src  []byte
}

func (f *goFile) dir() string  { return path.Dir(f.path) }
func (f *goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// lines is the number of lines of a file.
func (f *goFile) lines() int { return bytes.Count(f.src, []byte("\n")) }

// at names a place in the tree.
func (t *tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return p.Filename + ":" + itoa(p.Line)
}

func TestTheHouseKeepsItsRules(t *testing.T) {
	t.Parallel()
	house := readTree(t, "..")
	require.Greater(t, len(house.files), 50, "the tree is not read as a whole")
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, r.check(house), "%s", r.reason)
		})
	}
}

func TestEachRuleCanFail(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, r.reason)
			require.NotEmpty(t, r.broken, "the rule has nothing that breaks it")
			for _, sources := range r.broken {
				require.NotEmpty(t, r.check(makeTree(t, sources)), "%v", sources)
			}
		})
	}
}

// TestACleanTreeBreaksNoRule guards against rules that find something in
// everything.
func TestACleanTreeBreaksNoRule(t *testing.T) {
	t.Parallel()
	clean := makeTree(t, map[string]string{
		"embed.go":      "// Package belay embeds.\npackage belay\n",
		"go.mod":        "module " + module + "\n\nrequire (\n\tgithub.com/go-chi/chi/v5 v5.5.0\n\tgolang.org/x/time v0.1.0 // indirect\n)\n",
		"ingest/api.go": "// Package ingest is a door.\npackage ingest\n\nimport _ \"github.com/go-chi/chi/v5\"\nimport _ \"" + module + "/kv\"\n\n// A is one.\ntype A int\n",
		"kv/kv.go":      "// Package kv keeps.\npackage kv\n\nimport _ \"" + module + "/kv/task\"\n\n// The states.\nconst (\n\tB = 1\n)\n",
		"kv/kv_test.go": "package kv\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.Parallel() }\n",
		".ci/b/go.mod":  "module bench\n",
		".ci/b/b.go":    "package b\n\nimport _ \"example.org/rival\"\n",
		"kv/task/t.go":  "// Package task is a domain.\npackage task\n\nimport _ \"strings\"\n",
	})
	for _, r := range rules() {
		require.Empty(t, r.check(clean), r.name)
	}
}

// readTree reads the module, without what .gitignore names.
func readTree(t *testing.T, root string) *tree {
	t.Helper()
	sources := map[string]string{}
	ignored := ignoredBy(t, root)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel != "." && ignored(rel, true) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || ignored(rel, false) {
			return nil
		}
		b, err := os.ReadFile(name)
		sources[rel] = string(b)
		return err
	})
	require.NoError(t, err)
	return makeTree(t, sources)
}

// ignoredBy reads the few forms of pattern that .gitignore uses here.
func ignoredBy(t *testing.T, root string) func(rel string, dir bool) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	require.NoError(t, err)
	patterns := strings.Fields(string(b))
	return func(rel string, dir bool) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			name, isDir := strings.CutSuffix(p, "/")
			if isDir && !dir {
				return false
			}
			if rooted, ok := strings.CutPrefix(name, "/"); ok {
				return rooted == rel
			}
			ok, err := path.Match(name, path.Base(rel))
			return ok && err == nil
		})
	}
}

// makeTree parses sources; those of nested modules are texts only. What does
// not parse fails the test.
func makeTree(t *testing.T, sources map[string]string) *tree {
	t.Helper()
	out := &tree{fset: token.NewFileSet(), texts: map[string][]byte{}}
	for name, text := range sources {
		if strings.IndexByte(text, 0) < 0 {
			out.texts[name] = []byte(text)
		}
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") || nested(sources, name) {
			continue
		}
		f, err := parser.ParseFile(out.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		out.files = append(out.files, &goFile{path: name, ast: f, src: []byte(text)})
	}
	slices.SortFunc(out.files, func(a, b *goFile) int { return strings.Compare(a.path, b.path) })
	return out
}

// nested reports whether a file belongs to a module below this one.
func nested(sources map[string]string, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := sources[dir+"/go.mod"]; ok {
			return true
		}
	}
	return false
}

// version matches the end of an import path that is no package's name.
var version = regexp.MustCompile(`^v[0-9]+$`)

// imported is the name by which a file knows a package, "" if it does not.
func (f *goFile) imported(pkg string) string {
	for _, spec := range f.ast.Imports {
		if importPath(spec) != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		if base := path.Base(pkg); !version.MatchString(base) {
			return base
		}
		return path.Base(path.Dir(pkg))
	}
	return ""
}

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, `"`) }
