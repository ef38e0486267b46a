package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// ErrResult means that result.json is missing or breaks the contract; the
// text names the field.
var ErrResult = errors.New("result.json")

// maxResult bounds result.json, in bytes.
const maxResult = 1 << 20

// readResult reads a command's result. The file is the command's own work,
// so it is opened without following a link and without waiting for a pipe's
// other end, and has to be a plain file of the run's user.
func (e *Executor) readResult(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: was not written", ErrResult)
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%w: is a link", ErrResult)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: is no plain file", ErrResult)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && (st.Nlink != 1 || e.runAs.cred != nil && st.Uid != e.runAs.cred.UID) {
		return nil, fmt.Errorf("%w: is not the command's own file", ErrResult)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResult, err)
	}
	if len(b) > maxResult {
		return nil, fmt.Errorf("%w: is larger than %d bytes", ErrResult, maxResult)
	}
	return b, nil
}

// parseResult decodes a result, redacts all its text and checks it. Unknown
// fields are let pass: newer commands may say more.
func parseResult(b []byte, r *redact.Redactor) (*Result, error) {
	var w resultWire
	if err := json.Unmarshal(b, &w); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return nil, fmt.Errorf("%w: %s: %s is not allowed here", ErrResult, t.Field, t.Value)
		}
		return nil, fmt.Errorf("%w: %s", ErrResult, r.String(err.Error()))
	}
	c := &checker{r: r}
	res := c.result(&w)
	if c.err != nil {
		return nil, c.err
	}
	return res, nil
}

// The wire shapes: a pointer is a field that has to be there.
type resultWire struct {
	ContractVersion *string     `json:"contract_version"`
	Status          *string     `json:"status"`
	Branch          *string     `json:"branch"`
	Commits         *[]Commit   `json:"commits"`
	FilesChanged    *[]string   `json:"files_changed"`
	Summary         *string     `json:"summary"`
	PRBody          *string     `json:"pr_body"`
	Review          *reviewWire `json:"review"`
	ExitReason      *string     `json:"exit_reason"`
}

type reviewWire struct {
	Mode             *string    `json:"mode"`
	EvidenceStatus   *string    `json:"evidence_status"`
	ReviewedFiles    *[]string  `json:"reviewed_files"`
	SupportingFiles  *[]string  `json:"supporting_files"`
	Findings         *[]Finding `json:"findings"`
	TestsRun         *[]TestRun `json:"tests_run"`
	NoFindingsReason *string    `json:"no_findings_reason"`
	Limitations      *[]string  `json:"limitations"`
}

// checker builds a Result and keeps the first fault.
type checker struct {
	r   *redact.Redactor
	err error
}

func (c *checker) fault(field, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s: %s", ErrResult, field, fmt.Sprintf(format, args...))
	}
}

// text returns an optional text.
func (c *checker) text(s *string) string {
	if s == nil {
		return ""
	}
	return c.r.String(*s)
}

// need returns a text that has to be there.
func (c *checker) need(field string, s *string) string {
	if s == nil {
		c.fault(field, "is missing")
	}
	return c.text(s)
}

// some returns a text that must not be empty.
func (c *checker) some(field, s string) string {
	if strings.TrimSpace(s) == "" {
		c.fault(field, "is missing or empty")
	}
	return c.r.String(s)
}

// texts returns a list that has to be there.
func (c *checker) texts(field string, list *[]string) []string {
	if list == nil || *list == nil {
		c.fault(field, "is missing")
		return nil
	}
	out := make([]string, len(*list))
	for i, s := range *list {
		out[i] = c.r.String(s)
	}
	return out
}

// oneOf checks a value of a closed list.
func oneOf[T ~string](c *checker, field string, s T, allowed ...T) T {
	if !slices.Contains(allowed, s) {
		c.fault(field, "%q is not one of %v", c.r.String(task.Cut(string(s), 64)), allowed)
	}
	return s
}

// No regular expressions here and in the other files: they would be compiled
// anew at the start of every supervisor, which costs more than all the rest.

// made reports whether s consists of least to most bytes, all of a class.
func made(s string, least, most int, in func(c byte) bool) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

func hexadecimal(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' || 'a' <= c && c <= 'f'
}

func validSHA(s string) bool { return made(s, 7, 64, hexadecimal) }

// validBranch follows git's rules for a branch name.
func validBranch(s string) bool {
	ordinary := func(c byte) bool { return c > ' ' && c != 0x7f && !strings.ContainsRune(`~^:?*[\`, rune(c)) }
	return made(s, 1, 244, ordinary) && !strings.HasPrefix(s, "-") && !strings.HasSuffix(s, ".") &&
		!strings.Contains(s, "..") && !strings.Contains(s, "@{") && s != "@" &&
		!slices.ContainsFunc(strings.Split(s, "/"), func(p string) bool {
			return p == "" || strings.HasPrefix(p, ".") || strings.HasSuffix(p, ".lock")
		})
}
