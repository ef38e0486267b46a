package githubapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/belay-run/belay/kv/redact"
)

// guard lets requests only out to the API's own host: the transports above it
// add credentials, to redirected requests too.
type guard struct {
	next         http.RoundTripper
	scheme, host string
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != g.scheme || r.URL.Host != g.host {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("redirected to %s, away from %s", r.URL.Host, g.host)
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil && resp.Body != nil {
		resp.Body = &bounded{resp.Body, maxAnswer}
	}
	return resp, err
}

// maxAnswer is the largest answer that is read: a webhook's payload is 25 MB
// at most.
const maxAnswer = 64 << 20

// bounded is an answer's body that breaks off where it grows too large.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the answer is too large")
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type tokenKey struct{}

func withToken(ctx context.Context, t redact.Secret) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

// bearer adds the installation token of the request's context.
type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	t, _ := r.Context().Value(tokenKey{}).(redact.Secret)
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.Reveal())
	return b.next.RoundTrip(r)
}
