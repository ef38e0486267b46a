package githubtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options are what a Server is made of; the zero value will do.
type Options struct {
	// AppID is the App's id; 0 is 4711.
	AppID int64
	// Slug is the App's name in URLs, its bot's login is Slug + "[bot]"; "" is "belay-test".
	Slug string
	// Key is the App's private key; nil makes one.
	Key *rsa.PrivateKey
	// Permissions are what the App was granted; nil is DefaultPermissions.
	Permissions map[string]string
	// Events are what the App's webhook gets; nil is none.
	Events []string
	// Now is the clock of tokens, limits and dates; nil is time.Now.
	Now func() time.Time
	// JWTNow is the clock by which an App's JWT is checked; nil is time.Now,
	// as libraries that sign one read the machine's clock.
	JWTNow func() time.Time
	// Enterprise serves under /api/v3/ as GitHub Enterprise Server does.
	Enterprise bool
	// RateLimit is how many requests an installation has an hour; 0 is 5000.
	RateLimit int
	// AppRateLimit is how many requests the App itself has an hour; 0 is 5000.
	AppRateLimit int
	// OnRedeliver is called with a delivery that was asked for again, after
	// it came where there is a webhook.
	OnRedeliver func(Delivery)
}

// DefaultPermissions are the ones that belay's App needs.
func DefaultPermissions() map[string]string {
	return map[string]string{
		"contents": "write", "checks": "write", "issues": "write", "pull_requests": "write", "metadata": "read",
	}
}

// Server is a stand-in for GitHub that listens on a free port of loopback.
type Server struct {
	o      Options
	mux    *http.ServeMux
	http   *http.Server
	url    string
	prefix string
	done   chan struct{}
	served sync.WaitGroup

	mu            sync.Mutex
	nextID        int64
	installations map[int64]*installation
	repos         map[int64]*repository
	tokens        map[string]*grant
	grants        []Grant
	deliveries    []Delivery
	webhook       *webhook
	own           allowance // the App's own requests
	hook          map[string]string
	mutations     []Mutation
	requests      []string
	faults        []*Fault
}

// New starts a server; Close stops it.
func New(o Options) (*Server, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the stand-in of GitHub: %w", err)
	}
	s := &Server{
		o: o, mux: http.NewServeMux(), url: "http://" + l.Addr().String(), done: make(chan struct{}), nextID: 1000,
		installations: map[int64]*installation{}, repos: map[int64]*repository{}, tokens: map[string]*grant{},
		hook: map[string]string{"url": "https://belay.example/webhook", "content_type": "json", "insecure_ssl": "0", "secret": "********"},
	}
	if o.Enterprise {
		s.prefix = "/api/v3"
	}
	s.routes()
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	s.served.Go(func() { _ = s.http.Serve(l) })
	return s, nil
}

func (o *Options) fill() error {
	if o.AppID == 0 {
		o.AppID = 4711
	}
	if o.Slug == "" {
		o.Slug = "belay-test"
	}
	if o.Permissions == nil {
		o.Permissions = DefaultPermissions()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.JWTNow == nil {
		o.JWTNow = time.Now
	}
	if o.RateLimit == 0 {
		o.RateLimit = 5000
	}
	if o.AppRateLimit == 0 {
		o.AppRateLimit = 5000
	}
	if o.Key != nil {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make the key of the stand-in's App: %w", err)
	}
	o.Key = key
	return nil
}

// Close ends every request, those that a fault holds too, and the server.
func (s *Server) Close() error {
	select {
	case <-s.done:
		return nil
	default:
		close(s.done)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.served.Wait()
	return err
}

// URL is the base of the API, with a slash at its end: what api_url is set to.
func (s *Server) URL() string { return s.url + s.prefix + "/" }

// AppID is the App's id.
func (s *Server) AppID() int64 { return s.o.AppID }

// Login is the login of the App's bot.
func (s *Server) Login() string { return s.o.Slug + "[bot]" }

// PrivateKey is the App's private key in PEM.
func (s *Server) PrivateKey() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s.o.Key)})
}

// serve answers one request; faults come before and after the effect.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, s.prefix)
	if !ok {
		http.NotFound(w, r)
		return
	}
	r.URL.Path, r.URL.RawPath = path, strings.TrimPrefix(r.URL.RawPath, s.prefix)
	_, op := s.mux.Handler(r)
	f := s.takeFault(op)
	s.note(op, path)
	if f != nil && s.before(w, r, f) {
		return
	}
	out := &answer{header: http.Header{}}
	s.mux.ServeHTTP(out, r)
	if f != nil && s.after(w, r, f, out) {
		return
	}
	out.send(w)
}

// note records a request.
func (s *Server) note(op, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op == "" {
		op = "unknown " + path
	}
	s.requests = append(s.requests, op)
}

// answer holds a response back until it is decided what the client gets.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *answer) send(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = w.Write(a.body.Bytes())
}
