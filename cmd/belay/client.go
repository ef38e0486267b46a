package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/kv/redact"
)

const (
	// clientTimeout bounds a request; the server's own bounds are shorter.
	clientTimeout = 60 * time.Second
	// maxAnswer is the largest answer that is read: a log can be 8 MiB.
	maxAnswer = 64 << 20
	// tokenVar is the variable with the bearer token.
	tokenVar = "BELAY_TOKEN"
)

// newHTTPClient makes a client that follows no redirect: belay sends none.
func newHTTPClient() *http.Client {
	return &http.Client{
		Timeout:       clientTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// apiClient talks to one belay.
type apiClient struct {
	http  *http.Client
	base  string // without a slash at the end
	token redact.Secret
}

// dial finds out where belay is and how to log in. The configuration's own
// token goes only to the configuration's own address.
func (c *cli) dial() (*apiClient, error) {
	a := &apiClient{http: c.client, token: redact.Secret(c.getenv(tokenVar))}
	if c.server != "" {
		base, err := parseServer(c.server)
		a.base = base
		return a, err
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	a.base = serverOf(cfg)
	if a.token == "" {
		a.token = cfg.API.ServiceToken
	}
	return a, nil
}

// serverOf is the address at which this host reaches what cfg listens on.
func serverOf(cfg *config.Config) string {
	host, port, err := net.SplitHostPort(cfg.Server.Listen)
	if err != nil {
		return "http://" + cfg.Server.Listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// parseServer reads the value of --server.
func parseServer(s string) (string, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usageError("--server %s: write an address such as http://127.0.0.1:3000", s)
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// get reads a path of the API.
func (a *apiClient) get(ctx context.Context, path string, query url.Values) (answer, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return a.call(ctx, http.MethodGet, path, nil)
}

// post sends a command.
func (a *apiClient) post(ctx context.Context, path string, body any) (answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return answer{}, fmt.Errorf("encode request: %w", err)
	}
	return a.call(ctx, http.MethodPost, path, data)
}

// call makes one request, and an error of every answer that is no success.
func (a *apiClient) call(ctx context.Context, method, path string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token.Reveal())
	}
	ans, err := a.do(req)
	if err == nil && ans.status >= 300 {
		err = a.refused(ans)
	}
	return ans, err
}

// do sends a request and reads the answer.
func (a *apiClient) do(req *http.Request) (answer, error) {
	resp, err := a.http.Do(req)
	if err != nil {
		return answer{}, a.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, a.unreachable(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// unreachable says why there is no answer, and what to do.
func (a *apiClient) unreachable(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing answers at %s: start it with `belay serve`, or name its address with --server", a.base)
	case errors.As(err, &dns):
		return fmt.Errorf("find %s: %w: check --server", a.base, err)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case os.IsTimeout(err):
		return fmt.Errorf("%s did not answer in time: see its /healthz and its log", a.base)
	}
	return fmt.Errorf("talk to %s: %w: check --server, and the server's log", a.base, err)
}

// apiError is an answer of the API that is no success.
type apiError struct {
	status int
	text   string
	next   string
}

// Error is the answer and what to do.
func (e *apiError) Error() string {
	if e.next == "" {
		return e.text
	}
	return e.text + ": " + e.next
}

// refused makes an error of an answer.
func (a *apiClient) refused(ans answer) *apiError {
	e := &apiError{status: ans.status, text: errorText(ans)}
	switch {
	case e.text == "":
		e.text = fmt.Sprintf("%s answered %d, and not as belay does", a.base, ans.status)
		e.next = "check --server"
	case ans.status == http.StatusUnauthorized && a.token != "":
		e.next = "the token in " + tokenVar + " is not one that " + a.base + " knows"
	case ans.status == http.StatusUnauthorized:
		e.next = "set " + tokenVar + " to a token; in open mode belay answers only to its own host"
	case ans.status == http.StatusServiceUnavailable:
		e.next = "try again" + retryAfter(ans.header) + ", and see /readyz for the reason"
	}
	return e
}

// errorText is the text of belay's error envelope, "" for any other answer.
func errorText(ans answer) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(ans.body, &e) != nil {
		return ""
	}
	return e.Error
}

func retryAfter(h http.Header) string {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return fmt.Sprintf(" in %d s", n)
	}
	return ""
}

// decode reads a success.
func (a *apiClient) decode(ans answer, v any) error {
	if err := json.Unmarshal(ans.body, v); err != nil {
		return fmt.Errorf("read the answer of %s: %w: check --server", a.base, err)
	}
	return nil
}

// withNext adds what to do to an error of one status.
func withNext(err error, status int, next string) error {
	var e *apiError
	if errors.As(err, &e) && e.status == status && e.next == "" {
		e.next = next
	}
	return err
}
