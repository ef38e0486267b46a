package githubapp

import (
	"context"
	"fmt"
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
	return g.next.RoundTrip(r)
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
