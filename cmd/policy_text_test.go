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
			name: "no word on how it was made", reason: "the text is about belay", check: lineRule(everyText, making),
			broken: []map[string]string{in("README.md", "made by Claude\n"), in("kv/x.go", "package kv\n\n// as a language model\n")},
		},
		{
			name: "no path of one machine", reason: "it is wrong on every other one", check: lineRule(everyText, machinePath),
			broken: []map[string]string{in("README.md", "cd /work/main\n"), in("kv/x_test.go", "package kv\n\nvar p = \"/root/x\"\n")},
		},
		{
			name: "no fixed place for temporary files", reason: "os.MkdirTemp knows where, and nobody guesses the name", check: lineRule(programText, temporary),
			broken: []map[string]string{in("kv/x.go", "package kv\n\nvar p = \"/tmp/x\"\n")},
		},
		{
			name: "no address of a package registry", reason: "where packages come from is the business of who builds", check: lineRule(everyText, registry),
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

var (
	reminder     = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	reminderText = regexp.MustCompile(`\b(TODO|FIXME|XXX)(\([^)]+\))?: .*\w+ \w+`)

	making      = regexp.MustCompile(`(?i)\b(claude|chatgpt|language model|ai[- ]generated|as an ai)\b`)
	machinePath = regexp.MustCompile(`(^|[^\w./-])/(work|root)/`)
	temporary   = regexp.MustCompile(`(^|[^\w./-])/tmp\b`)
	registry    = regexp.MustCompile(`(?i)\b((proxy|sum)\.golang\.org|goproxy\.\w+|(registry\.)?npmjs\.(org|com)|registry\.yarnpkg\.com|pypi\.org|pythonhosted\.org|crates\.io|rubygems\.org)\b`)
)

func checkReminders(t *tree) []string {
	return lineRule(everyText, func(line string) bool {
		return reminder.MatchString(line) && !reminderText.MatchString(line)
	})(t)
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

// lineRule finds lines of the files that are meant. A finder is a function or
// a regular expression.
func lineRule[F func(string) bool | *regexp.Regexp](meant func(name string) bool, find F) func(*tree) []string {
	match, ok := any(find).(func(string) bool)
	if !ok {
		match = any(find).(*regexp.Regexp).MatchString
	}
	return func(t *tree) []string {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(t.texts)) {
			if !meant(name) {
				continue
			}
			for i, line := range bytes.Split(t.texts[name], []byte("\n")) {
				if match(string(line)) {
					out = append(out, fmt.Sprintf("%s:%d: %s", name, i+1, strings.TrimSpace(string(line))))
				}
			}
		}
		return out
	}
}
