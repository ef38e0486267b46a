package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belay-run/belay/consumers/relay/egress"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/redact"
)

const (
	// defaultTimeout bounds one POST, from dialling to the answer.
	defaultTimeout = 10 * time.Second
	// maxTimeout leaves room below the lease of a claim.
	maxTimeout = 45 * time.Second
	// maxAnswer bounds the header of an answer, in bytes; of a body less is read.
	maxAnswer = 1 << 20
	// shownAnswer is how much of a refusal's body people get to see.
	shownAnswer = 300
)

// CallbackOptions configure one callback. Name, URL and Secrets are needed.
type CallbackOptions struct {
	Name string
	URL  string
	// Secrets sign, each on its own; two while one is rotated.
	Secrets []redact.Secret
	// Bearer is sent as an Authorization header if set.
	Bearer redact.Secret
	// AllowPrivate permits http, loopback and private addresses.
	AllowPrivate bool
	// Timeout bounds one POST; 0 is 10 s, at most 45 s.
	Timeout time.Duration
	// Now is the clock of the signature.
	Now func() time.Time
	// Resolver and RootCAs replace the system's; may be nil.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool
}

// Callback posts records to one configured URL, signed as Standard Webhooks.
// It makes a connection for each POST: one that is kept may be closed by the
// recipient at the moment of use, which looks as if it had the message.
type Callback struct {
	o         CallbackOptions
	url       *url.URL
	keys      [][]byte
	redact    *redact.Redactor
	transport *http.Transport
}

// NewCallback checks the options; its errors name no secret.
func NewCallback(o CallbackOptions) (*Callback, error) {
	u, err := callbackURL(o.URL, o.AllowPrivate)
	if err != nil {
		return nil, fmt.Errorf("make callback %s: %w", o.Name, err)
	}
	c := &Callback{o: o, url: u, redact: redact.New(o.Bearer.Reveal())}
	if len(o.Secrets) == 0 {
		return nil, fmt.Errorf("make callback %s: no secret", o.Name)
	}
	for _, s := range o.Secrets {
		key, err := ParseSecret(s)
		if err != nil {
			return nil, fmt.Errorf("make callback %s: %w", o.Name, err)
		}
		c.keys = append(c.keys, key)
		c.redact.Add(strings.TrimPrefix(strings.TrimSpace(s.Reveal()), secretPrefix))
	}
	for _, values := range u.Query() {
		for _, v := range values {
			c.redact.Add(v)
		}
	}
	if o.Timeout == 0 {
		c.o.Timeout = defaultTimeout
	}
	if c.o.Timeout < 0 || c.o.Timeout > maxTimeout {
		return nil, fmt.Errorf("make callback %s: timeout %s is not within 0 and %s", o.Name, o.Timeout, maxTimeout)
	}
	if o.Now == nil {
		c.o.Now = time.Now
	}
	c.transport = &http.Transport{
		// No proxy: it would connect to what the dialer would refuse.
		DialContext:            egress.Dialer(o.AllowPrivate, c.o.Timeout, o.Resolver).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1: one message, one connection
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
	}
	return c, nil
}

func callbackURL(s string, allowPrivate bool) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("url cannot be parsed")
	case u.Scheme != "https" && !(u.Scheme == "http" && allowPrivate):
		return nil, fmt.Errorf("url has scheme %q, needs https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("url has no host")
	case u.User != nil:
		return nil, errors.New("url carries a user: use bearer")
	case u.Fragment != "":
		return nil, errors.New("url has a fragment")
	}
	return u, nil
}

// Label is a callback's URL without its query, to be shown and stored as a
// record's To.
func Label(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // no callback is made of it
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// Idempotent reports false: what a recipient does twice is not ours to know.
func (c *Callback) Idempotent() bool { return false }

// Deliver posts a message once. The body is the payload as it was stored; the
// signature is made now. Redirects are not followed.
func (c *Callback) Deliver(ctx context.Context, m Message) Answer {
	if len(m.Payload) == 0 || m.Payload[0] != '{' {
		return Answer{Verdict: Unrenderable, Reason: "payload is not an event: " + cutBytes(m.Payload)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	var w written
	req, err := c.request(httptrace.WithClientTrace(ctx, w.trace()), m)
	if err != nil {
		return Answer{Verdict: Final, Reason: c.redact.String(err.Error())}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.noAnswer(err, &w)
	}
	defer func() { _ = resp.Body.Close() }()
	return c.answer(resp)
}

func (c *Callback) request(ctx context.Context, m Message) (*http.Request, error) {
	// No GetBody and a reader that http does not know: it cannot send twice.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), io.NopCloser(bytes.NewReader(m.Payload)))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.ContentLength = int64(len(m.Payload))
	now := c.o.Now()
	h := req.Header
	h.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	h.Set("User-Agent", "belay")
	h.Set("Idempotency-Key", string(m.Key))
	h.Set(HeaderID, string(m.Key))
	h.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(HeaderSignature, Sign(c.keys, m.Key, now, m.Payload))
	if tp := kv.Traceparent(ctx); tp != "" {
		h.Set(kv.HeaderTraceparent, tp)
	}
	if c.o.Bearer != "" {
		h.Set("Authorization", "Bearer "+c.o.Bearer.Reveal())
	}
	return req, nil
}

// written learns how far a request got. From the moment that a connection is
// there its writing may begin, so what ends without an answer after that is
// unknown; before that certainly nothing was sent.
type written struct{ connected, whole atomic.Bool }

func (w *written) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { w.connected.Store(true) },
		WroteHeaders: func() { w.connected.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) { w.whole.Store(i.Err == nil) },
	}
}

// noAnswer judges a POST that ended without a status.
func (c *Callback) noAnswer(err error, w *written) Answer {
	why := c.redact.String(err.Error())
	var denied *egress.DeniedError
	switch {
	case errors.As(err, &denied):
		return Answer{Verdict: Final, Reason: why}
	case !w.connected.Load():
		return Answer{Verdict: Refused, Reason: "never sent: " + why}
	case w.whole.Load():
		return Answer{Verdict: Unknown, Reason: "no answer after the request was written: " + why}
	}
	return Answer{Verdict: Unknown, Reason: "connection broke while the request was written: " + why}
}

// answer judges a POST by its status (OB-8, OB-29).
func (c *Callback) answer(resp *http.Response) Answer {
	code := resp.StatusCode
	if code >= 200 && code <= 299 {
		return Answer{Verdict: Delivered}
	}
	a := Answer{Verdict: Final, Reason: c.reason(resp)}
	switch {
	case code == http.StatusGone:
		a.Verdict = Gone
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		a.Verdict = Refused
		a.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), c.o.Now())
	case code >= 300 && code <= 399:
		a.Reason = "redirects are not followed: " + a.Reason
	}
	return a
}

// reason is the recipient's answer for people: its status and the beginning of
// its body, without secrets.
func (c *Callback) reason(resp *http.Response) string {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4*shownAnswer))
	why := "HTTP " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	if text := cutBytes([]byte(c.redact.String(string(body)))); text != "" {
		why += ": " + text
	}
	return why
}

// retryAfter reads the header's two forms: seconds, or a date.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), int64((1000*time.Hour).Seconds()))) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// cutBytes is the beginning of a text on one line, without what is not text.
func cutBytes(b []byte) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, string(b[:min(len(b), 4*shownAnswer)]))
	clean = strings.Join(strings.Fields(clean), " ")
	if runes := []rune(clean); len(runes) > shownAnswer {
		return string(runes[:shownAnswer]) + "…"
	}
	return clean
}

// Close ends what connections there are.
func (c *Callback) Close() { c.transport.CloseIdleConnections() }

var _ Channel = (*Callback)(nil)
