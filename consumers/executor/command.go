package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belay-run/belay/kv/redact"
)

// ErrNoCommand means that a familiar's command is not to be found.
var ErrNoCommand = errors.New("command not found")

// defaultPath is the PATH of a belay that has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// FindCommand returns the absolute path of a command: one with a slash as it
// is, another from the absolute entries of path.
func FindCommand(name, path string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: the name is empty", ErrNoCommand)
	}
	if strings.ContainsRune(name, '/') {
		abs, err := filepath.Abs(name)
		if err == nil {
			err = executable(abs)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoCommand, err)
		}
		return abs, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: no executable %q on PATH %s", ErrNoCommand, name, path)
}

func executable(file string) error {
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", file)
	}
	return nil
}

// argv returns the configured command with its placeholders replaced. Only
// paths of belay's own making go in: what GitHub sent reaches the command in
// files (G39).
func argv(command []string, ws *workspace) []string {
	r := strings.NewReplacer("{brief}", ws.brief, "{result}", ws.result, "{workspace}", ws.root)
	out := slices.Clone(command)
	for i := range out[1:] {
		out[i+1] = r.Replace(out[i+1])
	}
	return out
}

// environment is all a command gets of one. Later entries go before earlier
// ones; belay's own are the last, so that no configuration replaces them.
func (e *Executor) environment(job *Job, ws *workspace, mark string) map[string]string {
	env := map[string]string{"PATH": defaultPath}
	for _, name := range e.cfg.PassEnv {
		if v, ok := e.cfg.LookupEnv(name); ok {
			env[name] = v
		}
	}
	if home := ws.home; home != "" {
		env["HOME"] = home
	} else if v, ok := e.cfg.LookupEnv("HOME"); ok {
		env["HOME"] = v
	}
	if e.runAs.name != "" {
		env["USER"], env["LOGNAME"] = e.runAs.name, e.runAs.name
	}
	env["TMPDIR"] = ws.tmp
	for k, v := range job.Familiar.Env {
		env[k] = v
	}
	for k := range env {
		if reserved(k) {
			delete(env, k)
		}
	}
	env["BELAY_TASK_ID"] = string(job.Task.ID)
	env["BELAY_ATTEMPT"] = fmt.Sprint(job.Attempt)
	env["BELAY_RUN"] = mark
	if job.socket != "" {
		env["BELAY_TOKEN_SOCKET"] = job.socket
	}
	if job.Traceparent != "" {
		env["TRACEPARENT"] = job.Traceparent
	}
	if job.GitToken != "" {
		env["COVEN_GIT_TOKEN"], env["BELAY_GIT_TOKEN"] = job.GitToken.Reveal(), job.GitToken.Reveal()
	}
	return env
}

// reserved names are belay's own: they are never passed on or configured.
func reserved(name string) bool {
	return strings.HasPrefix(name, "BELAY_") || name == "COVEN_GIT_TOKEN"
}

func list(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// sensitive reports whether a variable's value is one that no log may show.
func sensitive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "token", "secret", "passw", "credential"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// minEnvSecret is the length from which such a value is redacted; a shorter
// one is a word ("none", "file") rather than a secret.
const minEnvSecret = 8

// learn tells the redactor the secrets of the configured environment.
func learn(r *redact.Redactor, env map[string]string) {
	for k, v := range env {
		if sensitive(k) && len(v) >= minEnvSecret {
			r.Add(v)
		}
	}
}
