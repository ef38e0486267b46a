package cmd

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// importRules are the table of the package comment, and the dependencies.
func importRules() []rule {
	one := func(file, imports string) map[string]string {
		name := path.Base(path.Dir(file))
		return map[string]string{file: "package " + name + "\n\nimport _ \"" + imports + "\"\n"}
	}
	return []rule{
		{
			name: "libraries stay behind their fence", reason: "one place to change when a library does; see the table in doc.go",
			check: checkFences,
			broken: []map[string]string{
				one("kv/streams/x.go", "github.com/nats-io/nats-server/v2/server"),
				one("ingest/x.go", "github.com/nats-io/nats.go/jetstream"),
				one("consumers/executor/x.go", "github.com/nats-io/nats.go"),
				one("cmd/belay/x.go", "github.com/nats-io/nats.go"),
				one("kv/task/x.go", "github.com/nats-io/nats.go"),
				one("ingest/github/x.go", "github.com/go-chi/chi/v5"),
				one("consumers/x.go", "github.com/google/go-github/v70/github"),
				one("cmd/belay/x.go", "github.com/pelletier/go-toml/v2"),
				one("cmd/internal/app/x.go", "github.com/spf13/cobra"),
			},
		},
		{
			name: "domains use the standard library only", reason: "states and policies are argued about without a store",
			check: checkDomains,
			broken: []map[string]string{
				one("kv/task/x.go", "github.com/google/uuid"), one("kv/redact/x.go", module+"/kv/task"), one("kv/operator/x.go", module),
			},
		},
		{
			name: "imports go down only", reason: "a package is read without those above and beside it; see doc.go",
			check: checkDirection,
			broken: []map[string]string{
				one("ingest/x.go", module+"/consumers"),
				one("ingest/x_test.go", module+"/consumers/executor"),
				one("consumers/executor/x.go", module+"/ingest/github"),
				one("ingest/github/x.go", module+"/ingest"),
				one("ingest/github/x.go", module+"/ingest/dashboard"),
				one("consumers/relay/x.go", module+"/consumers/githubapp"),
				one("consumers/githubapp/githubtest/x.go", module+"/consumers/githubapp"),
				one("kv/view/x.go", module+"/kv"),
				one("kv/view/x.go", module+"/kv/streams"),
				one("kv/natstest/x.go", module+"/kv"),
				one("kv/x.go", module+"/ingest"),
				one("kv/x.go", module+"/cmd/internal/config"),
				one("consumers/x.go", module+"/cmd/internal/config"),
				one("cmd/internal/config/x.go", module+"/cmd/internal/app"),
			},
		},
		{
			name: "each dependency has a reason", reason: "what we import, our users have to trust",
			check: checkDependencies,
			broken: []map[string]string{
				one("kv/x.go", "github.com/someone/something"),
				one("kv/x_test.go", "example.org/assert"),
				{"go.mod": "module " + module + "\n\nrequire github.com/someone/something v1.0.0\n"},
				{"go.mod": "module " + module + "\n\nrequire (\n\tgithub.com/someone/something v1.0.0\n)\n"},
			},
		},
	}
}

// domains are the packages of pure rules.
var domains = []string{"kv/task", "kv/outbox", "kv/operator", "kv/redact"}

// fences say of a library which packages may use it outside of tests.
var fences = map[string]func(dir string) bool{
	"github.com/nats-io/nats-server": func(dir string) bool { return dir == "kv/natsserver" },
	"github.com/nats-io/nats.go": func(dir string) bool {
		return under(dir, "kv") && !slices.Contains(domains, dir) || dir == "consumers" || dir == "consumers/relay" || under(dir, "cmd/internal")
	},
	"github.com/go-chi/chi":                   func(dir string) bool { return dir == "ingest" },
	"github.com/google/go-github":             inGitHubApp,
	"github.com/bradleyfalzon/ghinstallation": inGitHubApp,
	"github.com/gofri/go-github-ratelimit":    inGitHubApp,
	"github.com/pelletier/go-toml":            func(dir string) bool { return dir == "cmd/internal/config" },
	"github.com/spf13/cobra":                  func(dir string) bool { return dir == "cmd/belay" },
	"github.com/spf13/pflag":                  func(dir string) bool { return dir == "cmd/belay" },
}

func inGitHubApp(dir string) bool { return under(dir, "consumers/githubapp") }

// under reports whether a path is another one or below it.
func under(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }

// eachImport calls f with every import of the tree.
func (t *tree) eachImport(f func(file *goFile, imported string) string) []string {
	var out []string
	for _, file := range t.files {
		for _, spec := range file.ast.Imports {
			if problem := f(file, importPath(spec)); problem != "" {
				out = append(out, t.at(spec.Pos())+": "+problem)
			}
		}
	}
	return out
}

func checkFences(t *tree) []string {
	return t.eachImport(func(f *goFile, imported string) string {
		if f.isTest() {
			return ""
		}
		for _, library := range slices.Sorted(maps.Keys(fences)) {
			if under(imported, library) && !fences[library](f.dir()) {
				return imported + " is not for " + f.dir()
			}
		}
		return ""
	})
}

func checkDomains(t *tree) []string {
	return t.eachImport(func(f *goFile, imported string) string {
		if f.isTest() || !slices.Contains(domains, f.dir()) || standard(imported) {
			return ""
		}
		return f.dir() + " imports " + imported
	})
}

// standard reports whether a package is of the standard library.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

func checkDirection(t *tree) []string {
	return t.eachImport(func(f *goFile, imported string) string {
		to, ok := strings.CutPrefix(imported, module+"/")
		if !ok || to == f.dir() {
			return "" // the top of the module only embeds files
		}
		if problem := direction(f.dir(), to, f.isTest()); problem != "" {
			return f.dir() + " imports " + to + ": " + problem
		}
		return ""
	})
}

// direction says what is wrong with an import between packages of the module.
func direction(from, to string, test bool) string {
	house := func(p string) string { top, _, _ := strings.Cut(p, "/"); return top }
	switch a, b := house(from), house(to); {
	case b == "cmd" && a != "cmd":
		return "nothing below cmd imports it"
	case a == "kv" && b != "kv":
		return "kv imports nothing above it"
	case a == "ingest" && b == "consumers", a == "consumers" && b == "ingest":
		return "the two houses do not know each other"
	case test || a != b:
		return ""
	case under(from, to):
		return "a child does not import its parent"
	case under(to, from), a == "cmd" && siblingOfCmd(from, to), a == "kv" && siblingOfKV(from, to):
		return ""
	}
	return "siblings do not import each other"
}

// siblingOfCmd are the imports within cmd: belay composes all, app composes the
// rest, doctor reads the configuration.
func siblingOfCmd(from, to string) bool {
	return from == "cmd/belay" || to == "cmd/internal/config" ||
		from == "cmd/internal/app" && to == "cmd/internal/doctor" // a process makes doctor's checks of itself
}

// siblingOfKV are the imports among the children of kv.
func siblingOfKV(from, to string) bool {
	return slices.Contains(domains, to) || from == "kv/natstest" && (to == "kv/natsserver" || to == "kv/streams")
}

// dependencies says what each module saves us from writing.
var dependencies = map[string]string{
	"github.com/nats-io/nats-server/v2":          "the store and the queue, embedded",
	"github.com/nats-io/nats.go":                 "its client",
	"github.com/go-chi/chi/v5":                   "routes with parameters and middleware",
	"github.com/prometheus/client_golang":        "metrics",
	"github.com/spf13/cobra":                     "subcommands, flags and their help",
	"github.com/pelletier/go-toml/v2":            "TOML, with the line of each key",
	"github.com/google/uuid":                     "UUIDs, version 5 among them",
	"github.com/tidwall/btree":                   "the ordered index of the read model",
	"github.com/google/go-github":                "the types and calls of GitHub's API",
	"github.com/bradleyfalzon/ghinstallation/v2": "tokens of an App's installations",
	"github.com/gofri/go-github-ratelimit/v2":    "waiting for GitHub's secondary limits",
	"go.opentelemetry.io/otel":                   "traces",
	"go.opentelemetry.io/contrib":                "traces of HTTP",
	"golang.org/x/sys":                           "system calls that syscall does not have",
	"github.com/stretchr/testify":                "tests: checks",
	"go.uber.org/goleak":                         "tests: goroutines that were left behind",
	"pgregory.net/rapid":                         "tests: properties over generated values",
	"github.com/chromedp/chromedp":               "tests: a browser",
	"github.com/chromedp/cdproto":                "tests: its protocol",
}

// allowed reports whether a package or module is one of the dependencies.
func allowed(p string) bool {
	for m := range dependencies {
		if under(p, m) || strings.HasPrefix(p, m+"/v") {
			return true
		}
	}
	return false
}

func checkDependencies(t *tree) []string {
	out := t.eachImport(func(_ *goFile, imported string) string {
		if standard(imported) || under(imported, module) || allowed(imported) {
			return ""
		}
		return imported + " is not on the list of dependencies"
	})
	block := false
	for line := range strings.Lines(string(t.texts["go.mod"])) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.Contains(line, "// indirect"):
			continue
		case words[0] == "require" && len(words) > 1 && words[1] == "(":
			block = true
			continue
		case words[0] == ")":
			block = false
			continue
		case words[0] == "require":
			words = words[1:]
		case !block:
			continue
		}
		if !allowed(words[0]) {
			out = append(out, "go.mod: "+words[0]+" is not on the list of dependencies")
		}
	}
	return out
}
