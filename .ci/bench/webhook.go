package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// secret signs the webhooks of the benchmarks.
const secret = "a-secret-that-only-benchmarks-use"

// bodySize is about what a pull_request event of a small repository has.
const bodySize = 10 << 10

// Placeholders of what is new in every request. Each stands once in a body or
// a message; the one of the body is near its end, so that its signature costs
// a block or two instead of all.
const (
	placeNonce = "nnnnnnnnnnnnnnnn"
	placeID    = "dddddddd-dddd-dddd-dddd-dddddddddddd"
	placeHash  = "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
	placeTask  = "tttttttt-tttt-tttt-tttt-tttttttttttt"
)

type object = map[string]any

// pullRequestBody is a pull_request event of bodySize bytes: three copies of
// the repository, as GitHub sends them, and text.
func pullRequestBody() ([]byte, error) {
	repo := object{"id": 99, "full_name": "acme/api", "default_branch": "main", "clone_url": "https://git.example/acme/api.git", "private": true}
	for _, kind := range strings.Fields("archive assignees blobs branches collaborators comments commits compare contents deployments downloads events forks hooks issues keys labels languages merges milestones notifications pulls releases stargazers statuses subscribers tags teams trees") {
		repo[kind+"_url"] = "https://api.git.example/repos/acme/api/" + kind + "{/number}"
	}
	side := func(ref, sha string) object {
		return object{"label": "acme:" + ref, "ref": ref, "sha": strings.Repeat(sha, 40), "repo": repo, "user": object{"login": "acme", "id": 3}}
	}
	event := object{
		"action": "synchronize", "number": 5, "before": strings.Repeat("a", 40), "after": strings.Repeat("b", 40),
		"installation": object{"id": 7}, "repository": repo,
		"pull_request": object{
			"id": 11, "number": 5, "state": "open", "title": "Retry the upload when the connection is reset", "user": object{"login": "octocat", "id": 1},
			"draft": false, "created_at": "2026-05-01T10:00:00Z", "updated_at": "2026-05-01T12:00:00Z",
			"head": side("retry-upload", "b"), "base": side("main", "c"), "body": "",
		},
		"sender": object{"id": 1, "login": "octocat", "node_id": placeNonce},
	}
	bare, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	pr := event["pull_request"].(object)
	text := strings.Repeat("It closes the file first, then tries again. ", bodySize/40)
	pr["body"] = text[:max(0, bodySize-len(bare))]
	return json.Marshal(event)
}

// routing is the configuration under which every body is a task: a review.
func routing() *github.Config {
	return &github.Config{
		Source: task.DefaultSource, Lanes: github.AllLanes, ReviewFamiliar: "cody", ReviewPullRequest: true,
		Familiars: []github.Familiar{{ID: "cody", DisplayName: "Cody", BotUsername: "cody[bot]", TriggerLabels: []string{"bug"}}},
	}
}

// requests makes ever new signed requests in one buffer.
type requests struct {
	raw   []byte
	body  []byte // the body within raw
	id    []byte // the delivery id within raw
	sig   []byte // the signature's digits within raw
	nonce []byte // within body
	tail  []byte // of the body, from the last whole block before the nonce
	keyed hash.Cloner
}

func newRequests(host string) (*requests, error) {
	body, err := pullRequestBody()
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST /webhook HTTP/1.1\r\nHost: %s\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: pull_request\r\nX-GitHub-Delivery: %s\r\nX-GitHub-Hook-ID: 42\r\nX-GitHub-Hook-Installation-Target-Type: integration\r\n"+
		"X-GitHub-Hook-Installation-Target-ID: 7\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\n\r\n", host, placeID, placeHash, len(body))
	r := &requests{raw: append([]byte(head), body...)}
	r.body = r.raw[len(head):]
	at := func(in []byte, place string) []byte {
		i := strings.Index(string(in), place)
		return in[i : i+len(place)]
	}
	r.id, r.sig, r.nonce = at(r.raw, placeID), at(r.raw, placeHash), at(r.body, placeNonce)
	same := strings.Index(string(r.body), placeNonce) / sha256.BlockSize * sha256.BlockSize
	r.tail = r.body[same:]
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(r.body[:same])
	var ok bool
	if r.keyed, ok = mac.(hash.Cloner); !ok {
		return nil, fmt.Errorf("make requests: %T cannot be cloned", mac)
	}
	return r, nil
}

// next is valid until the call after it.
func (r *requests) next() ([]byte, error) {
	fillID(r.id)
	fillHex(r.nonce)
	mac, err := r.keyed.Clone()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	mac.Write(r.tail)
	var sum [sha256.Size]byte
	hex.Encode(r.sig, mac.Sum(sum[:0]))
	return r.raw, nil
}

// fillHex overwrites b with random hex digits.
func fillHex(b []byte) {
	const digits = "0123456789abcdef"
	for i := 0; i < len(b); {
		for n, r := 0, rand.Uint64(); n < 16 && i < len(b); n, r = n+1, r>>4 {
			b[i] = digits[r&15]
			i++
		}
	}
}

// fillID overwrites b with a random id in the form of a UUID.
func fillID(b []byte) {
	fillHex(b)
	for _, i := range []int{8, 13, 18, 23} {
		b[i] = '-'
	}
}

// message is what the log stores for the body, with placeholders.
func message() (data []byte, subjectOf task.Delivery, err error) {
	body, err := pullRequestBody()
	if err != nil {
		return nil, task.Delivery{}, err
	}
	ev, err := github.Decode("pull_request", body)
	if err != nil {
		return nil, task.Delivery{}, fmt.Errorf("decode body: %w", err)
	}
	d := github.Route(routing(), github.Headers{Event: "pull_request", Delivery: placeID, HookID: "42"}, ev, time.Now())
	if d.Task == nil {
		return nil, d, fmt.Errorf("the body makes no task: %s", d.Routing)
	}
	d.PayloadHash, d.Task.ID, d.Routing = placeHash, placeTask, task.ToTask(placeTask)
	data, err = json.Marshal(&d)
	return data, d, err
}
