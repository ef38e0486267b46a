package consumers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belay-run/belay/kv"
)

// tokens pulls from the durable consumer `tasks`. A token says that there is
// work; it is the queue that the nats CLI shows.
//
// All claimers share one standing inbox and one request at a time. It asks for
// as many tokens as claimers wait, no_wait and without expires; those that come
// while it is being answered share the next one. Nothing is held: a token that
// comes when nobody waits any more is given back at once. Which request a
// token answers cannot be told and does not matter, as one is like another.
type tokens struct {
	js      jetstream.JetStream
	restore func(ctx context.Context, stream, consumer string) error
	next    string // the subject of requests

	mu      sync.Mutex
	sub     *nats.Subscription // of the inbox, nil until the first request
	inbox   string
	number  uint64     // of the newest request; an answer without a token names it
	owed    int        // tokens that request may still bring; none if it is over
	waiting []*waiter  // first come, first served
	asked   int        // how many of them the request was made for
	binding bool       // the durable is being looked at
	missing bool       // it was gone when last heard of
	idle    *sync.Cond // the request or the look is over
	sent    time.Time
	timer   *time.Timer
	life    context.Context
	closed  context.CancelFunc
}

// waiter is a claimer that waits for a token, or for the word that there is
// none.
type waiter struct{ answer chan answer }

type answer struct {
	msg *nats.Msg
	err error
}

// errConsumerGone means that the durable was deleted and is made again.
var errConsumerGone = errors.New("consumer is gone")

// pullWait is how long an answer may take: one to no_wait comes at once.
const pullWait = 2 * time.Second

func newTokens(js jetstream.JetStream, restore func(ctx context.Context, stream, consumer string) error) *tokens {
	t := &tokens{js: js, restore: restore, next: nextSubject(js.Options())}
	t.life, t.closed = context.WithCancel(context.Background())
	t.idle = sync.NewCond(&t.mu)
	t.timer = time.AfterFunc(time.Hour, t.late)
	t.timer.Stop()
	return t
}

// nextSubject is where the durable takes requests, under the prefix of the API
// that the client uses.
func nextSubject(o jetstream.JetStreamOptions) string {
	prefix := jetstream.DefaultAPIPrefix
	switch {
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return prefix + "CONSUMER.MSG.NEXT." + kv.StreamWebhooks + "." + kv.ConsumerTasks
}

// expect queues n waiters; each is to be waited for.
func (t *tokens) expect(n int) []*waiter {
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = &waiter{answer: make(chan answer, 1)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, ws...)
	t.ask()
	return ws
}

// wait returns the waiter's token, nil if there is none.
func (t *tokens) wait(ctx context.Context, w *waiter) (*token, error) {
	var a answer
	select {
	case a = <-w.answer:
	case <-ctx.Done():
		t.leave(w, ctx.Err())
		a = <-w.answer // by leave, or a token that came just before it
	}
	if a.err != nil {
		return nil, fmt.Errorf("pull from %s: %w", kv.ConsumerTasks, a.err)
	}
	if a.msg == nil {
		return nil, nil
	}
	return open(a.msg), nil
}

// leave takes a waiter out of the queue, if it is still there.
func (t *tokens) leave(w *waiter, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if i < t.asked {
		t.asked--
	}
	w.answer <- answer{err: why}
}

// ask makes a request for all who wait, unless one is being answered. t.mu is
// held, as in all that follows but what the client calls.
func (t *tokens) ask() {
	if t.owed > 0 || t.binding || len(t.waiting) == 0 {
		return
	}
	if t.life.Err() != nil {
		t.asked = len(t.waiting)
		t.over(nats.ErrConnectionClosed)
		return
	}
	if t.missing {
		t.binding = true
		go t.bind()
		return
	}
	t.asked = len(t.waiting)
	if err := t.request(t.asked); err != nil {
		t.over(err)
	}
}

func (t *tokens) request(n int) error {
	nc := t.js.Conn()
	if t.sub == nil {
		inbox := nc.NewInbox() + "."
		sub, err := nc.Subscribe(inbox+"*", t.arrived)
		if err != nil {
			return err
		}
		t.sub, t.inbox = sub, inbox
	}
	t.number++
	body := fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, n)
	if err := nc.PublishRequest(t.next, t.inbox+strconv.FormatUint(t.number, 10), body); err != nil {
		return err
	}
	t.owed, t.sent = n, time.Now()
	t.timer.Reset(pullWait)
	return nil
}

// bind makes a deleted durable again, then the request.
func (t *tokens) bind() {
	ctx, cancel := context.WithTimeout(t.life, 5*time.Second)
	defer cancel()
	_, err := t.js.Consumer(ctx, kv.StreamWebhooks, kv.ConsumerTasks)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		err = t.restore(ctx, kv.StreamWebhooks, kv.ConsumerTasks)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.binding, t.missing = false, err != nil
	t.idle.Broadcast()
	if err != nil {
		t.asked = len(t.waiting)
		t.over(fmt.Errorf("bind: %w", err))
		return
	}
	t.ask()
}

// arrived takes what the inbox gets: tokens, or the word that there are no more.
func (t *tokens) arrived(m *nats.Msg) {
	if len(m.Data) == 0 && m.Header.Get("Status") != "" {
		t.answered(m)
		return
	}
	t.mu.Lock()
	t.owed = max(0, t.owed-1)
	var w *waiter
	if len(t.waiting) > 0 {
		w, t.waiting = t.waiting[0], t.waiting[1:]
		t.asked = max(0, t.asked-1)
	}
	if t.owed == 0 {
		t.over(nil)
	}
	t.mu.Unlock()
	if w == nil {
		_ = m.Nak()
		return
	}
	w.answer <- answer{msg: m}
}

// answered ends the newest request, if the answer is to that one.
func (t *tokens) answered(m *nats.Msg) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owed == 0 || m.Subject != t.inbox+strconv.FormatUint(t.number, 10) {
		return
	}
	err := statusError(m.Header.Get("Status"), m.Header.Get("Description"))
	t.missing = errors.Is(err, errConsumerGone)
	t.over(err)
}

// statusError is nil when the consumer is there and has nothing to give.
func statusError(code, text string) error {
	switch {
	case code == "404" || code == "408":
		return nil
	case code == "503", code == "409" && strings.Contains(strings.ToLower(text), "consumer deleted"):
		return fmt.Errorf("%w: %s %s", errConsumerGone, code, text)
	}
	return fmt.Errorf("answer %s %s", code, text)
}

// late ends a request that nobody answered.
func (t *tokens) late() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owed > 0 && (t.life.Err() != nil || time.Since(t.sent) >= pullWait) {
		t.over(nats.ErrTimeout)
	}
}

// over ends the request: those it was made for and who got no token are told
// so, and the next one is made.
func (t *tokens) over(err error) {
	t.owed = 0
	t.timer.Stop()
	for _, w := range t.waiting[:t.asked] {
		w.answer <- answer{err: err}
	}
	t.waiting = slices.Delete(t.waiting, 0, t.asked)
	t.asked = 0
	t.idle.Broadcast()
	t.ask()
}

// closeWait is how long close waits for the answer to a request.
const closeWait = 500 * time.Millisecond

// close ends the inbox, once the request that may be under way is over: what
// it brings is given back.
func (t *tokens) close() {
	t.closed()
	t.mu.Lock()
	if t.owed > 0 {
		t.timer.Reset(closeWait)
	}
	for t.owed > 0 || t.binding {
		t.idle.Wait()
	}
	sub := t.sub
	t.sub = nil
	t.mu.Unlock()
	if sub != nil {
		_ = sub.Unsubscribe()
	}
}
