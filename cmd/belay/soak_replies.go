package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/redact"
)

// soakKey signs the soak's replies.
const soakKey = redact.Secret("whsec_c29hayBzb2FrIHNvYWsgc29hayBzb2FrIHNvYWs=")

// soakReceiver is where replies go. It lives in the soak's own process, which
// nobody kills, takes everything, and counts what came under each id.
type soakReceiver struct {
	url string
	srv *http.Server

	mu  sync.Mutex
	got map[string]int
}

func newSoakReceiver(ctx context.Context) (*soakReceiver, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replies: %w", err)
	}
	r := &soakReceiver{url: "http://" + ln.Addr().String(), got: map[string]int{}}
	r.srv = &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.srv.Serve(ln) }() // ends by close
	return r, nil
}

func (r *soakReceiver) take(_ http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return // cut short by a kill: not a reply
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[req.Header.Get(relay.HeaderID)]++
}

func (r *soakReceiver) close() error {
	if err := r.srv.Close(); err != nil {
		return fmt.Errorf("close the receiver of replies: %w", err)
	}
	return nil
}

// counts is a copy of what came.
func (r *soakReceiver) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]int, len(r.got))
	for id, n := range r.got {
		out[id] = n
	}
	return out
}

// soakReply is a record of the outbox.
type soakReply struct {
	ID     string `json:"id"`
	TaskID string `json:"taskId"`
	Status string `json:"status"`
}

// replies reads the whole outbox.
func (s *soakServer) replies(ctx context.Context) ([]soakReply, error) {
	var all []soakReply
	q := url.Values{"limit": {"1000"}}
	for {
		ans, err := s.client.Load().get(ctx, outboxPath, q)
		if err != nil {
			return nil, err
		}
		var page struct {
			Outbox     []soakReply `json:"outbox"`
			NextCursor string      `json:"nextCursor"`
		}
		if err := json.Unmarshal(ans.body, &page); err != nil {
			return nil, fmt.Errorf("read the outbox: %w", err)
		}
		all = append(all, page.Outbox...)
		if page.NextCursor == "" {
			return all, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// repliesLeft counts the replies that are still to be sent.
func repliesLeft(list []soakItem, replies []soakReply) int {
	left := len(list) - len(replies)
	for _, r := range replies {
		if r.Status == "pending" {
			left++
		}
	}
	return left
}

// auditReplies compares what the outbox says with what came: each ended task
// has one reply, it came at most once, and what reads delivered came. What a
// kill interrupted reads delivering and may have come or not: unknown.
func auditReplies(list []soakItem, replies []soakReply, got map[string]int) (wrong []string, unknown int) {
	of := map[string]int{}
	known := map[string]bool{}
	for _, r := range replies {
		of[r.TaskID]++
		known[r.ID] = true
		switch r.Status {
		case "delivered":
			if got[r.ID] == 0 {
				wrong = append(wrong, "reply "+r.ID+" reads delivered, but never came")
			}
		case "delivering":
			unknown++
		default:
			wrong = append(wrong, "reply "+r.ID+" is "+r.Status)
		}
	}
	for _, t := range list {
		if of[t.ID] != 1 {
			wrong = append(wrong, fmt.Sprintf("task %s has %d replies", t.ID, of[t.ID]))
		}
	}
	for id, n := range got {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("reply %s came %d times", id, n))
		}
		if !known[id] {
			wrong = append(wrong, "reply "+id+" came, but the outbox does not know it")
		}
	}
	return wrong, unknown
}

// reportReplies prints what became of the replies and fails if any is wrong.
func (s *soak) reportReplies(list []soakItem, replies []soakReply) error {
	got := s.receiver.counts()
	wrong, unknown := auditReplies(list, replies, got)
	fmt.Fprintf(s.cli.out, "%d replies, %d came, %d unknown (a kill came between the claim and the answer), wrong %d\n",
		len(replies), len(got), unknown, len(wrong))
	if len(wrong) > 0 {
		return errors.New("soak found a wrong reply: " + wrong[0])
	}
	return nil
}
