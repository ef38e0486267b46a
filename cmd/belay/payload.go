package main

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
)

// payloads are the built-in ones: <event>.json or <event>.<action>.json. A
// string that begins with $ stands for what vocabulary makes of it.
//
//go:embed payloads/*.json
var payloads embed.FS

// builtin lists the names of the built-in payloads.
func builtin() []string {
	entries, err := fs.ReadDir(payloads, "payloads")
	if err != nil {
		panic(err) // the folder is in the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// vocabulary makes the values that differ from one payload to the next.
type vocabulary struct {
	label, bot, handle string
	now                time.Time
	sha, before        string
}

// newVocabulary takes names from the configuration, so that a payload reaches
// its first familiar.
func newVocabulary(cfg *config.Config, now time.Time) vocabulary {
	v := vocabulary{label: "belay", now: now, sha: randomSHA(), before: randomSHA()}
	for i, f := range cfg.Familiars {
		if i == 0 {
			v.bot = f.BotUsername
		}
		if len(f.TriggerLabels) > 0 {
			v.label = f.TriggerLabels[0]
			break
		}
	}
	v.handle = strings.TrimSuffix(v.bot, "[bot]")
	return v
}

// fill replaces the words in a decoded payload.
func (v vocabulary) fill(node any) any {
	switch n := node.(type) {
	case map[string]any:
		for k, e := range n {
			n[k] = v.fill(e)
		}
	case []any:
		for i, e := range n {
			n[i] = v.fill(e)
		}
	case string:
		return v.word(n)
	}
	return node
}

func (v vocabulary) word(s string) any {
	switch s {
	case "$id":
		return randomID()
	case "$now":
		return stamp(v.now)
	case "$sha":
		return v.sha
	case "$before":
		return v.before
	case "$base":
		return strings.Repeat("b", 40)
	case "$label":
		return v.label
	case "$bot":
		return v.bot
	case "$repository":
		return v.repository()
	}
	return strings.ReplaceAll(s, "$handle", v.handle)
}

func (v vocabulary) repository() map[string]any {
	return map[string]any{
		"id": 1, "name": "shop", "full_name": "acme/shop", "owner": map[string]any{"login": "acme"},
		"clone_url": "https://github.com/acme/shop.git", "default_branch": "main", "private": false,
		"pushed_at": stamp(v.now),
	}
}

// stamp writes a time as GitHub does, but to the microsecond: two payloads of
// one second would else be the same body, and the second a replay.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// randomID is a number such as GitHub gives to what it stores. It also makes
// each body its own.
func randomID() int64 {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<52))
	if err != nil {
		panic(err) // never happens, says the package
	}
	return n.Int64() + 1
}

func randomSHA() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// loadPayload returns the payload of an event: the given JSON, or the built-in
// one. Times are those of now, and the action that of the event's name.
func loadPayload(event string, given []byte, v vocabulary) (map[string]any, error) {
	raw := given
	if raw == nil {
		var err error
		if raw, err = payloads.ReadFile("payloads/" + event + ".json"); err != nil {
			return nil, usageError("there is no built-in payload for %s: name a JSON file with --file, or send one of %s",
				event, strings.Join(builtin(), ", "))
		}
	}
	tree, err := decodeObject(raw)
	if err != nil {
		return nil, usageError("the payload of %s is no JSON object: %v: --raw sends it nevertheless", event, err)
	}
	if given == nil {
		v.fill(tree)
		return tree, nil
	}
	refresh(tree, v.now)
	if _, action, ok := strings.Cut(event, "."); ok {
		tree["action"] = action
	}
	return tree, nil
}

// decodeObject decodes a JSON object and keeps its numbers as they are.
func decodeObject(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after it")
	}
	if tree == nil {
		return nil, errors.New("it is null")
	}
	return tree, nil
}

// fresh are the keys with the times by which belay orders and ages payloads.
var fresh = []string{"updated_at", "submitted_at", "pushed_at", "timestamp"}

// refresh sets the times of a payload to now; those that are absent stay so.
func refresh(node any, now time.Time) {
	switch n := node.(type) {
	case map[string]any:
		for k, e := range n {
			_, text := e.(string)
			_, number := e.(json.Number)
			switch {
			case slices.Contains(fresh, k) && text:
				n[k] = stamp(now)
			case slices.Contains(fresh, k) && number:
				n[k] = now.Unix()
			default:
				refresh(e, now)
			}
		}
	case []any:
		for _, e := range n {
			refresh(e, now)
		}
	}
}

// setValue sets what a dotted path names, as in issue.labels.0.name=bug. The
// value is JSON, or else a string; missing objects on the way are made.
func setValue(tree map[string]any, assignment string) error {
	path, text, ok := strings.Cut(assignment, "=")
	if !ok || path == "" {
		return usageError("--set %s: write key=value, such as issue.title=Hello", assignment)
	}
	keys := strings.Split(path, ".")
	var node any = tree
	for i, key := range keys {
		last := i == len(keys)-1
		switch n := node.(type) {
		case map[string]any:
			if last {
				n[key] = parseValue(text)
				return nil
			}
			if n[key] == nil {
				n[key] = map[string]any{}
			}
			node = n[key]
		case []any:
			index, err := strconv.Atoi(key)
			if err != nil || index < 0 || index >= len(n) {
				return usageError("--set %s: %s is not one of the %d elements", assignment, key, len(n))
			}
			if last {
				n[index] = parseValue(text)
				return nil
			}
			node = n[index]
		default:
			return usageError("--set %s: %s is neither an object nor a list", assignment, strings.Join(keys[:i], "."))
		}
	}
	return nil
}

func parseValue(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return text
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return text
	}
	return v
}

// encode writes a payload as GitHub does, without escaping < and >.
func encode(tree map[string]any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
