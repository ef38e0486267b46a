package githubapp

import (
	"context"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v88/github"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv/redact"
)

// DefaultAPIURL is the API of github.com.
const DefaultAPIURL = "https://api.github.com/"

// Options are what a Client is made of; AppID and PrivateKey are needed.
type Options struct {
	AppID int64
	// PrivateKey is the App's, in PEM.
	PrivateKey []byte
	// APIURL is the base of the API, for GitHub Enterprise Server
	// https://HOST/api/v3/; "" is DefaultAPIURL. Plain http is for loopback.
	APIURL string
	// MarkerSecrets sign the marker of a status comment: the first signs,
	// all are accepted. None: a secret derived from the private key.
	MarkerSecrets []redact.Secret
	// Transport carries the requests; nil is a clone of http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds one request; 0 is 15 s.
	Timeout time.Duration
	// Now is the clock of tokens and limits; nil is time.Now.
	Now func() time.Time
	// Sleep waits between tries and between writes; nil waits by the
	// machine's clock. It returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Issued is called with each token that was minted, so that it can be
	// redacted; it may be nil.
	Issued func(redact.Secret)
	// Logger is told when an installation is parked; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics; nil registers none. With several Apps,
	// wrap it with a label of the source.
	Registerer prometheus.Registerer
}

// Client acts as one GitHub App. It is safe for concurrent use and starts no
// goroutine.
type Client struct {
	o       Options
	log     *slog.Logger
	app     *github.Client // authenticated by the App's JWT
	inst    *github.Client // by the token in the request's context
	markers [][]byte
	tokens  *tokens
	limits  *limits
	lanes   *lanes
	threads *keyed
	login   login
	places  places
	met     *metrics
}

// New makes a Client; it asks nothing of GitHub.
func New(o Options) (*Client, error) {
	if o.AppID <= 0 {
		return nil, fmt.Errorf("make github client: app id is %d", o.AppID)
	}
	key, err := parseKey(o.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("make github client: %w", err)
	}
	base, err := parseAPIURL(o.APIURL)
	if err != nil {
		return nil, fmt.Errorf("make github client: %w", err)
	}
	o.defaults()
	c := &Client{
		o: o, log: o.Logger, markers: markerKeys(o.MarkerSecrets, key), limits: newLimits(o.Now),
		lanes: &lanes{now: o.Now, sleep: o.Sleep, of: map[int64]*lane{}}, threads: newKeyed(), login: login{turn: make(chan struct{}, 1)},
		places: places{of: map[string]located{}},
	}
	c.tokens = newTokens(c)
	guard := &guard{next: o.Transport, scheme: base.Scheme, host: base.Host}
	if c.app, err = newGitHub(base, ghinstallation.NewAppsTransportFromPrivateKey(guard, o.AppID, key)); err != nil {
		return nil, err
	}
	if c.inst, err = newGitHub(base, bearer{guard}); err != nil {
		return nil, err
	}
	c.met = newMetrics(o.Registerer, c.limits)
	return c, nil
}

func (o *Options) defaults() {
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 16
		o.Transport = t
	}
	if o.Timeout == 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Issued == nil {
		o.Issued = func(redact.Secret) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
}

// Close closes idle connections.
func (c *Client) Close() {
	if t, ok := c.o.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Parked says until when an installation's calls fail, and why; zero if they
// do not. Installation 0 are the App's own calls.
func (c *Client) Parked(installation int64) (until time.Time, reason string) {
	var limit *RateLimitError
	if errors.As(c.limits.check(installation), &limit) {
		return limit.Until, limit.Reason()
	}
	return time.Time{}, ""
}

// newGitHub is go-github without its own idea of limits: it would block every
// installation by the limit of one.
func newGitHub(base *url.URL, t http.RoundTripper) (*github.Client, error) {
	at := base.String()
	c, err := github.NewClient(
		github.WithTransport(t), github.WithURLs(&at, nil), github.WithUserAgent("belay"), github.WithDisableRateLimitCheck(),
	)
	if err != nil {
		return nil, fmt.Errorf("make github client: %w", err)
	}
	return c, nil
}

// parseKey reads a PEM key in PKCS #1 or #8. Errors do not quote it.
func parseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("parse private key: no PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("parse private key: neither PKCS #1 nor PKCS #8")
	}
	key, ok := other.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("parse private key: %T is no RSA key", other)
	}
	return key, nil
}

// parseAPIURL checks the base of the API: tokens are sent there.
func parseAPIURL(text string) (*url.URL, error) {
	if text == "" {
		text = DefaultAPIURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("parse api_url: it is no URL")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" {
		return nil, errors.New("parse api_url: it wants the form https://HOST/api/v3/")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, fmt.Errorf("parse api_url: %s to %s would send tokens in the clear", u.Scheme, u.Hostname())
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// markerKeys are what the markers of status comments are signed with.
func markerKeys(secrets []redact.Secret, key *rsa.PrivateKey) [][]byte {
	var out [][]byte
	for _, s := range secrets {
		if s != "" {
			out = append(out, []byte(s.Reveal()))
		}
	}
	if len(out) == 0 {
		m := hmac.New(sha256.New, x509.MarshalPKCS1PrivateKey(key))
		m.Write([]byte("belay status comment marker v1"))
		out = append(out, m.Sum(nil))
	}
	return out
}
