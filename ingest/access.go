package ingest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxPath bounds what is audited of a refused path.
const maxPath = 100

// The values of [api] mode.
const (
	// ModeOpen answers whoever reaches a loopback name, without a token.
	ModeOpen = "open"
	// ModeToken answers bearers of a token.
	ModeToken = "token"
)

// Access says who may use the API.
type Access struct {
	Mode string
	// ServiceToken is the SHA-256 of the token that sees all.
	ServiceToken [sha256.Size]byte
}

func (a *Access) check() error {
	switch {
	case a.Mode != ModeOpen && a.Mode != ModeToken:
		return fmt.Errorf("api mode %q is neither %s nor %s", a.Mode, ModeOpen, ModeToken)
	case a.Mode == ModeToken && a.ServiceToken == [sha256.Size]byte{}:
		return errors.New("api mode token needs a service token")
	}
	return nil
}

// Scope is what a caller may see: nil fields do not limit.
type Scope struct {
	Installation *int64
	Repos        []string
}

// sees reports whether something of an installation and repo is in the scope.
func (sc *Scope) sees(installation int64, repo string) bool {
	if sc.Installation != nil && *sc.Installation != installation {
		return false
	}
	return sc.Repos == nil || slices.Contains(sc.Repos, repo)
}

// Caller is who asks: a name for the audit trail, and a scope.
type Caller struct {
	Name  string
	Scope Scope
}

type callerKey struct{}

// CallerFrom returns the caller that the API let in.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// authenticate finds out who asks, or false.
func (s *Server) authenticate(r *http.Request) (Caller, bool) {
	a := s.o.Access()
	if a.Mode == ModeOpen {
		return Caller{Name: "local"}, loopbackRequest(r)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], a.ServiceToken[:]) != 1 {
		return Caller{}, false
	}
	return Caller{Name: "service"}, true
}

// authorize lets a known caller through and answers 401 to all others, the
// same to each (DT-99), before anything of the path is looked at.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := s.authenticate(r)
		if !ok {
			s.metrics.denials.Inc()
			remote, _, _ := net.SplitHostPort(r.RemoteAddr)
			s.o.Auditor.Denied(r.Method+" "+r.URL.Path[:min(len(r.URL.Path), maxPath)], remote)
			if a := s.o.Access(); a.Mode == ModeOpen {
				s.warn("denied_open", "api request refused: open mode answers only this machine, by a loopback name and through no proxy",
					slog.String("next", `set [api] mode = "token"`))
			}
			s.fail(w, errDenied)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// proxied are headers that only something between the caller and us sets: a
// tunnel's visitor is not on this machine, although its tunnel is.
var proxied = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via", "Cf-Connecting-Ip",
}

// loopbackRequest reports whether a request was made for this machine by
// name: a foreign Host is a page that rebound its name to 127.0.0.1.
func loopbackRequest(r *http.Request) bool {
	for _, h := range proxied {
		if _, ok := r.Header[h]; ok {
			return false
		}
	}
	return loopbackHost(r.Host)
}

// loopbackHost takes a host with or without a port.
func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// CheckBind refuses to listen for the world without tokens: an address that
// is not loopback needs mode token, or allowPublic from somebody who knows
// what stands in front.
func CheckBind(addr, mode string, allowPublic bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("read listen address %q: %w; next: set [server] listen to host:port", addr, err)
	}
	if mode == ModeToken || allowPublic || loopbackHost(host) {
		return nil
	}
	return fmt.Errorf("[server] listen = %q is open to the network and [api] mode = %q asks for no token; "+
		"next: set [api] mode = %q with a service_token, listen on 127.0.0.1, or set [server] allow_public = true", addr, mode, ModeToken)
}
