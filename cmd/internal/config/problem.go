package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnreadable means that the file cannot be read at all: it is missing, not
// permitted, or not TOML.
var ErrUnreadable = errors.New("configuration is not readable")

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Key is dotted, such as "worker.concurrency" or "familiars[0].id".
	Key string
	// Env is the variable that the value came from, empty where none did.
	Env string
	// Line is that of the key in the file, 0 where the value is not from there.
	Line int
	// Value is what was found, empty for secrets and absent values.
	Value string
	// Message says what is wrong, Next what to do.
	Message string
	Next    string
}

// String is the problem on one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	b.WriteString(p.Key)
	if p.Env != "" {
		fmt.Fprintf(&b, " ($%s)", p.Env)
	}
	if p.Value != "" {
		fmt.Fprintf(&b, " = %s", p.Value)
	}
	fmt.Fprintf(&b, ": %s", p.Message)
	if p.Next != "" {
		fmt.Fprintf(&b, ": %s", p.Next)
	}
	return b.String()
}

// Error is every problem of a configuration.
type Error struct {
	File     string
	Problems []Problem
}

// Error lists the problems, one a line.
func (e *Error) Error() string {
	where := e.File
	if where == "" {
		where = "environment"
	}
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, where+": "+p.String())
	}
	return strings.Join(lines, "\n")
}

// unreadable is an error of kind ErrUnreadable that prints only its line.
type unreadable struct {
	line  string
	cause error
}

// Error returns the line.
func (e *unreadable) Error() string { return e.line }

// Unwrap makes errors.Is find both the kind and the cause.
func (e *unreadable) Unwrap() []error { return []error{ErrUnreadable, e.cause} }

// problems collects what is wrong while a configuration is read.
type problems struct {
	lines   map[string]int
	origins map[string]Origin
	list    []Problem
	bad     map[string]bool
}

// add notes a problem of a key.
func (p *problems) add(key, value, message, next string) {
	if p.bad == nil {
		p.bad = map[string]bool{}
	}
	p.bad[key] = true
	env := p.origins[key].variable()
	line := p.lines[key]
	if env != "" {
		line = 0
	}
	p.list = append(p.list, Problem{Key: key, Env: env, Line: line, Value: value, Message: message, Next: next})
}

// ok reports whether none of the keys has a problem yet, so that a rule over
// several keys does not speak of a value that was not understood.
func (p *problems) ok(keys ...string) bool {
	for _, k := range keys {
		if p.bad[k] {
			return false
		}
	}
	return true
}

// err returns the problems as an error, nil when there are none.
func (p *problems) err(file string) error {
	if len(p.list) == 0 {
		return nil
	}
	return &Error{File: file, Problems: p.list}
}
