package githubapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/belay-run/belay/kv/redact"
)

// TokenSocketEnv is where a run finds the path of its broker's socket.
const TokenSocketEnv = "BELAY_TOKEN_SOCKET"

// BrokerOptions are what a TokenBroker is made of; Path and Token are needed.
type BrokerOptions struct {
	// Path is the socket, in the run's private folder; at most 107 bytes on Linux.
	Path string
	// UID owns the socket, so that a run under another user reaches it; 0 or
	// less leaves it with this process's user.
	UID int
	// Token returns the token to hand out.
	Token func(ctx context.Context) (Token, error)
	// Issued is called with each token before it is handed out, so that it
	// is redacted from then on; it may be nil.
	Issued func(redact.Secret)
}

// TokenBroker hands fresh tokens to one run over a unix socket that only the
// run's user can open (G41): GET /token answers {"token","expires_at"}.
type TokenBroker struct {
	o      BrokerOptions
	server *http.Server
	stop   context.CancelFunc
	served sync.WaitGroup
	once   sync.Once
	err    error
}

// brokerTimeout bounds a request to the broker; a token may have to be minted.
const brokerTimeout = 45 * time.Second

// NewTokenBroker opens the socket and serves it until Close.
func NewTokenBroker(o BrokerOptions) (*TokenBroker, error) {
	if o.Token == nil {
		return nil, errors.New("open token socket: nothing makes tokens")
	}
	if o.Issued == nil {
		o.Issued = func(redact.Secret) {}
	}
	l, err := net.Listen("unix", o.Path)
	if err != nil {
		return nil, fmt.Errorf("open token socket: %w", err)
	}
	if err := private(o.Path, o.UID); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &TokenBroker{o: o, stop: stop}
	b.server = &http.Server{
		Handler: http.HandlerFunc(b.serve), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: brokerTimeout + 5*time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	b.served.Go(func() { _ = b.server.Serve(l) })
	return b, nil
}

// private lets only the owner connect, which takes write permission. Until
// then the folder protects the socket, which is the run's own.
func private(path string, uid int) error {
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect token socket: %w", err)
	}
	if uid > 0 && uid != os.Getuid() {
		if err := os.Chown(path, uid, -1); err != nil {
			return fmt.Errorf("give token socket to user %d: %w", uid, err)
		}
	}
	return nil
}

// Close ends the socket and every request on it; it may be repeated.
func (b *TokenBroker) Close() error {
	b.once.Do(func() {
		b.stop()
		b.err = b.server.Close()
		b.served.Wait()
		if err := os.Remove(b.o.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			b.err = errors.Join(b.err, err)
		}
	})
	return b.err
}

type brokerAnswer struct {
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Error     string    `json:"error,omitempty"`
}

func (b *TokenBroker) serve(w http.ResponseWriter, r *http.Request) {
	reply := func(status int, a brokerAnswer) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a)
	}
	if r.Method != http.MethodGet || r.URL.Path != "/token" {
		reply(http.StatusNotFound, brokerAnswer{Error: "not found"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), brokerTimeout)
	defer cancel()
	t, err := b.o.Token(ctx)
	if err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, ErrRateLimited) {
			status = http.StatusTooManyRequests
		}
		reply(status, brokerAnswer{Error: err.Error()})
		return
	}
	b.o.Issued(t.Value)
	reply(http.StatusOK, brokerAnswer{Token: t.Value.Reveal(), ExpiresAt: t.ExpiresAt})
}

// FetchToken asks the broker behind a socket for a token.
func FetchToken(ctx context.Context, socket string) (Token, error) {
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://broker/token", nil)
	if err != nil {
		return Token{}, fmt.Errorf("fetch token: %w", err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return Token{}, fmt.Errorf("fetch token: %w", err)
	}
	defer resp.Body.Close()
	var a brokerAnswer
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&a); err != nil {
		return Token{}, fmt.Errorf("fetch token: read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK || a.Token == "" {
		return Token{}, fmt.Errorf("fetch token: broker answers %d: %s", resp.StatusCode, a.Error)
	}
	return Token{Value: redact.Secret(a.Token), ExpiresAt: a.ExpiresAt}, nil
}
