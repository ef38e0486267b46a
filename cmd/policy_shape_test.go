package cmd

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits of files and functions, in lines.
const (
	maxFile = 500
	maxMain = 40
	maxFunc = 60 // of 95 functions in 100
)

func itoa(n int) string { return strconv.Itoa(n) }

// shapeRules are those that the syntax tree answers.
func shapeRules() []rule {
	long := strings.Repeat("\n", maxFile+1)
	longFunc := "// Package kv keeps.\npackage kv\n\nfunc f() {" + strings.Repeat("\n", maxFunc+1) + "}\n"
	test := func(body string) map[string]string {
		return map[string]string{"kv/x_test.go": "package kv\n\nimport (\n\t\"testing\"\n\tclock \"time\"\n)\n\nfunc TestX(t *testing.T) {\n\t_ = clock.Second\n" + body + "\n}\n"}
	}
	prom := func(body string) map[string]string {
		return map[string]string{"kv/x.go": "package kv\n\nimport \"github.com/prometheus/client_golang/prometheus\"\n\nfunc f() {\n" + body + "\n}\n"}
	}
	return []rule{
		{
			name: "no file is longer than 500 lines", reason: "split where a fence appears", check: checkFileLength,
			broken: []map[string]string{{"kv/x.go": "package kv\n" + long}, {"kv/x_test.go": "package kv\n" + long}},
		},
		{
			name: "main only calls run", reason: "what main does, no test can do", check: checkMain,
			broken: []map[string]string{{"cmd/belay/main.go": "package main\n" + strings.Repeat("\n", maxMain)}},
		},
		{
			name: "functions are short", reason: "95 of 100 are at most 60 lines", check: checkFuncLength,
			broken: []map[string]string{{"kv/x.go": longFunc}},
		},
		{
			name: "every package has a comment", reason: "it says what the package is and is not", check: checkPackageComments,
			broken: []map[string]string{{"kv/x.go": "package kv\n"}, {"kv/x.go": "// Package kv keeps.\n\npackage kv\n"}},
		},
		{
			name: "every exported name has a comment", reason: "shapes, units and errors are read there", check: checkDocs,
			broken: []map[string]string{
				{"kv/x.go": "package kv\n\ntype A int\n"},
				{"kv/x.go": "package kv\n\nfunc A() {}\n"},
				{"kv/x.go": "package kv\n\nvar A = 1\n"},
				{"kv/x.go": "package kv\n\nconst (\n\tA = 1\n)\n"},
				{"kv/x.go": "package kv\n\n// A is one.\ntype A int\n\nfunc (*A) B() {}\n"},
				{"kv/x.go": "package kv\n\n// G is generic.\ntype G[T any] struct{}\n\nfunc (g *G[T]) B() {}\n"},
			},
		},
		{
			name: "tests neither sleep nor skip", reason: "wait for a signal; what cannot run is no test", check: checkTests,
			broken: []map[string]string{
				test("clock.Sleep(1)"), test("t.Skip()"), test("t.Skipf(\"x\")"), test("t.SkipNow()"),
			},
		},
		{
			name: "metrics have a registerer of their own", reason: "globals meet in tests and in embedding programs", check: checkMetrics,
			broken: []map[string]string{
				prom("prometheus.MustRegister()"), prom("_ = prometheus.DefaultRegisterer"), prom("_ = prometheus.DefaultGatherer"),
				{"kv/x.go": "package kv\n\nimport \"github.com/prometheus/client_golang/prometheus/promhttp\"\n\nvar h = promhttp.Handler()\n"},
				{"kv/x.go": "package kv\n\nimport _ \"github.com/prometheus/client_golang/prometheus/promauto\"\n"},
			},
		},
		{
			name: "no init functions", reason: "what a program does begins in main", check: checkInit,
			broken: []map[string]string{{"kv/x.go": "package kv\n\nfunc init() {}\n"}},
		},
	}
}

func checkFileLength(t *tree) []string {
	var out []string
	for _, f := range t.files {
		if n := f.lines(); n > maxFile {
			out = append(out, fmt.Sprintf("%s has %d lines", f.path, n))
		}
	}
	return out
}

func checkMain(t *tree) []string {
	var out []string
	for _, f := range t.files {
		if n := f.lines(); path.Base(f.path) == "main.go" && n > maxMain {
			out = append(out, fmt.Sprintf("%s has %d lines", f.path, n))
		}
	}
	return out
}

func checkFuncLength(t *tree) []string {
	type function struct {
		lines int
		at    string
	}
	var all []function
	for _, f := range t.files {
		if f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
				all = append(all, function{n, t.at(fn.Pos()) + ": " + fn.Name.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b function) int { return a.lines - b.lines })
	if len(all) == 0 || all[len(all)*95/100].lines <= maxFunc {
		return nil
	}
	var out []string
	for _, fn := range all[len(all)*95/100:] {
		out = append(out, fmt.Sprintf("%s has %d lines", fn.at, fn.lines))
	}
	return out
}

func checkPackageComments(t *tree) []string {
	commented := map[string]bool{}
	for _, f := range t.files {
		if !f.isTest() {
			commented[f.dir()] = commented[f.dir()] || f.ast.Doc != nil
		}
	}
	var out []string
	for dir, ok := range commented {
		if !ok {
			out = append(out, "package "+dir+" has no comment")
		}
	}
	return out
}

func checkDocs(t *tree) []string {
	var out []string
	for _, f := range t.files {
		if f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range undocumented(d) {
				out = append(out, t.at(name.Pos())+": "+name.Name+" has no comment")
			}
		}
	}
	return out
}

// undocumented lists the exported names of a declaration without a comment.
// The comment of a group is one for all its names.
func undocumented(d ast.Decl) []*ast.Ident {
	var out []*ast.Ident
	note := func(names []*ast.Ident, docs ...*ast.CommentGroup) {
		for _, n := range names {
			if n.IsExported() && !slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c != nil }) {
				out = append(out, n)
			}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() {
			note([]*ast.Ident{d.Name}, d.Doc)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				note([]*ast.Ident{s.Name}, d.Doc, s.Doc)
			case *ast.ValueSpec:
				note(s.Names, d.Doc, s.Doc, s.Comment)
			}
		}
	}
	return out
}

// receiver is the name of the type that a method belongs to.
func receiver(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e
	}
	return ast.NewIdent("_")
}

// uses lists where a file uses names of a package.
func (t *tree) uses(f *goFile, pkg string, names ...string) []string {
	local := f.imported(pkg)
	if local == "" {
		return nil
	}
	var out []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				out = append(out, t.at(s.Pos())+": "+pkg+"."+s.Sel.Name)
			}
		}
		return true
	})
	return out
}

func checkTests(t *tree) []string {
	var out []string
	for _, f := range t.files {
		if !f.isTest() {
			continue
		}
		out = append(out, t.uses(f, "time", "Sleep")...)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				out = append(out, t.at(s.Pos())+": "+s.Sel.Name)
			}
			return true
		})
	}
	return out
}

func checkMetrics(t *tree) []string {
	const prometheus = "github.com/prometheus/client_golang/prometheus"
	out := t.eachImport(func(_ *goFile, imported string) string {
		if imported == prometheus+"/promauto" {
			return imported + " registers globally"
		}
		return ""
	})
	for _, f := range t.files {
		out = append(out, t.uses(f, prometheus, "MustRegister", "Register", "Unregister", "DefaultRegisterer", "DefaultGatherer")...)
		out = append(out, t.uses(f, prometheus+"/promhttp", "Handler")...)
	}
	return out
}

func checkInit(t *tree) []string {
	var out []string
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.isTest() {
				out = append(out, t.at(fn.Pos())+": init")
			}
		}
	}
	return out
}
