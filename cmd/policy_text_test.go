package cmd

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// textRules are those that hold for every text file.
func textRules() []rule {
	in := func(name, text string) map[string]string { return map[string]string{name: text} }
	return []rule{
		{
			name: "the top of the module is fixed", reason: "the floor plan is what a reader sees first", check: checkEntries,
			broken: []map[string]string{in("util/x.go", "package util\n"), in("main.go", "package main\n"), in("NOTES.md", "x")},
		},
		{
			name: "what is to be done says what", reason: "a bare reminder tells nobody anything", check: checkReminders,
			broken: []map[string]string{in("kv/x.go", "package kv\n\n// TODO\n"), in("README.md", "TODO:\n"), in("deploy/x.sh", "# TODO(me):  \n")},
		},
		{
			name: "no word on how it was made", reason: "the text is about belay", check: lineRule(everyText, anyCase(making)),
			broken: []map[string]string{in("README.md", "made by Claude\n"), in("kv/x.go", "package kv\n\n// as a language model\n")},
		},
		{
			name: "no path of one machine", reason: "it is wrong on every other one", check: lineRule(everyText, asWords(machinePath)),
			broken: []map[string]string{in("README.md", "cd /work/main\n"), in("kv/x_test.go", "package kv\n\nvar p = \"/root/x\"\n")},
		},
		{
			name: "no fixed place for temporary files", reason: "os.MkdirTemp knows where, and nobody guesses the name", check: lineRule(programText, asWords(temporary)),
			broken: []map[string]string{in("kv/x.go", "package kv\n\nvar p = \"/tmp/x\"\n")},
		},
		{
			name: "no address of a package registry", reason: "where packages come from is the business of who builds", check: lineRule(everyText, anywhere(registry)),
			broken: []map[string]string{in("deploy/Dockerfile", "ENV GOPROXY=https://proxy.golang.org\n"), in(".ci/package-lock.json", "https://registry.npmjs.org/x\n")},
		},
	}
}

// entries are all that may stand at the top, beside dot-files.
var entries = []string{
	"cmd", "ingest", "consumers", "kv", "deploy", "streams.json", "nats.conf", "go.mod", "go.sum", "README.md", "LICENSE", "embed.go",
}

func checkEntries(t *tree) []string {
	var out []string
	for name := range t.texts {
		top, _, _ := strings.Cut(name, "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(entries, top) && !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out
}

// What the rules look for. A word begins where no letter, digit or part of a
// longer path stands before it; hosts are found anywhere.
var (
	reminder    = []string{"TODO", "FIXME", "XXX"}
	making      = []string{"claude", "chatgpt", "language model", "ai-generated", "ai generated", "as an ai "}
	machinePath = []string{"/work/", "/root/"}
	temporary   = []string{"/tmp/", `/tmp"`}
	registry    = []string{
		"proxy.golang.org", "sum.golang.org", "goproxy.io", "goproxy.cn", "npmjs.org", "npmjs.com", "registry.yarnpkg.com",
		"pypi.org", "pythonhosted.org", "crates.io", "rubygems.org",
	}

	reminderText = regexp.MustCompile(`\b(TODO|FIXME|XXX)(\([^)]+\))?: .*\w+ \w+`)
	partOfWord   = regexp.MustCompile(`[\w./-]`)
)

func checkReminders(t *tree) []string {
	return slices.DeleteFunc(lineRule(everyText, asWords(reminder))(t), reminderText.MatchString)
}

// everyText are all text files, without what others wrote and without the
// rules themselves.
func everyText(name string) bool {
	return !strings.Contains(name, "testdata/") && !policyFile.MatchString(name)
}

var policyFile = regexp.MustCompile(`^cmd/policy_\w*test\.go$`)

// programText are the Go files that end up in the binary.
func programText(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// finder returns the offsets of what it looks for.
type finder func(text []byte) []int

// anywhere finds literals. It is no regular expression as those take seconds
// over the whole tree under the race detector.
func anywhere(literals []string) finder {
	return func(text []byte) []int {
		var out []int
		for _, l := range literals {
			for from := 0; ; {
				i := bytes.Index(text[from:], []byte(l))
				if i < 0 {
					break
				}
				out = append(out, from+i)
				from += i + len(l)
			}
		}
		return out
	}
}

// asWords finds literals that do not go on what stands before them.
func asWords(literals []string) finder {
	return func(text []byte) []int {
		return slices.DeleteFunc(anywhere(literals)(text), func(i int) bool {
			return i > 0 && partOfWord.Match(text[i-1:i])
		})
	}
}

// anyCase finds literals, which are in lower case, in any case of ASCII, so
// that offsets stay the same.
func anyCase(literals []string) finder {
	return func(text []byte) []int {
		lower := bytes.Clone(text)
		for i, b := range lower {
			if 'A' <= b && b <= 'Z' {
				lower[i] = b + 'a' - 'A'
			}
		}
		return asWords(literals)(lower)
	}
}

// lineRule finds lines with what does not belong into the files that are meant.
func lineRule(meant func(name string) bool, find finder) func(*tree) []string {
	return func(t *tree) []string {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(t.texts)) {
			text := t.texts[name]
			if !meant(name) {
				continue
			}
			for _, at := range find(text) {
				number := bytes.Count(text[:at], []byte("\n"))
				line := bytes.Split(text, []byte("\n"))[number]
				out = append(out, fmt.Sprintf("%s:%d: %s", name, number+1, bytes.TrimSpace(line)))
			}
		}
		return out
	}
}
