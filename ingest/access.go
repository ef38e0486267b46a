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
	"strings"

	"github.com/belay-run/belay/kv/task"
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
	// ServiceToken is the SHA-256 of the token that sees all; zero for none.
	ServiceToken [sha256.Size]byte
	// Tenants see a part of it, in mode token only.
	Tenants []Tenant
}

// Tenant is a caller with a token and a scope of its own.
type Tenant struct {
	// Name stands for it in the audit trail, as tenant:<name>.
	Name string
	// Token is the SHA-256 of its token.
	Token [sha256.Size]byte
	// Scope names one installation, and perhaps some of its repositories.
	Scope Scope
}

func (a *Access) check() error {
	switch {
	case a.Mode != ModeOpen && a.Mode != ModeToken:
		return fmt.Errorf("api mode %q is neither %s nor %s", a.Mode, ModeOpen, ModeToken)
	case a.Mode == ModeOpen && len(a.Tenants) > 0:
		return errors.New("api mode open keeps no tenants apart")
	case a.Mode == ModeToken && a.ServiceToken == [sha256.Size]byte{} && len(a.Tenants) == 0:
		return errors.New("api mode token needs a token")
	}
	for _, t := range a.Tenants {
		if t.Token == [sha256.Size]byte{} || t.Name == "" || t.Scope.Installation == nil {
			return fmt.Errorf("tenant %q needs a name, a token and an installation", t.Name)
		}
	}
	return nil
}

// caller is whose token it is. All of them are compared, each in constant
// time, so the time it takes tells nothing of any.
func (a *Access) caller(token string) (Caller, bool) {
	const nobody, service = -2, -1
	sum, who := sha256.Sum256([]byte(token)), nobody
	who = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], a.ServiceToken[:]), service, who)
	for i := range a.Tenants {
		who = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], a.Tenants[i].Token[:]), i, who)
	}
	switch who {
	case nobody:
		return Caller{}, false
	case service:
		return Caller{Name: "service"}, true
	}
	return Caller{Name: "tenant:" + a.Tenants[who].Name, Scope: a.Tenants[who].Scope}, true
}

// Scope is what a caller may see: nil fields do not limit. Repositories are
// meant as records name them, letter case aside: one that was renamed has
// older records under its former name.
type Scope struct {
	Installation *int64
	Repos        []string
}

// sees reports whether something of an installation and repo is in the scope.
func (sc *Scope) sees(installation int64, repo string) bool {
	if sc.Installation != nil && *sc.Installation != installation {
		return false
	}
	return task.NewRepoFilter(sc.Repos, "").Has(repo)
}

// installation is the one that the scope names, 0 if it names none.
func (sc *Scope) installation() int64 {
	if sc.Installation == nil {
		return 0
	}
	return *sc.Installation
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
	c, ok := a.caller(strings.TrimSpace(token))
	return c, ok && strings.EqualFold(scheme, "Bearer")
}

// authorize lets a known caller through and answers 401 to all others, the
// same to each (DT-99), before anything of the path is looked at.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := s.authenticate(r)
		if !ok {
			err := s.deny(r, remoteOf(r))
			if a := s.o.Access(); a.Mode == ModeOpen {
				s.warn("denied_open", "api request refused: open mode answers only this machine, by a loopback name and through no proxy",
					slog.String("next", `set [api] mode = "token"`))
			}
			s.fail(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// deny counts and audits a request that is refused: who is a remote address,
// or a caller who is known and may not do this.
func (s *Server) deny(r *http.Request, who string) error {
	s.metrics.denials.Inc()
	s.o.Auditor.Denied(auditedPath(r), who)
	return errDenied
}

// missed notes that a tenant wanted to change what is not there, or not its
// own: nobody but the trail is told of a difference.
func (s *Server) missed(r *http.Request, c Caller, err error) error {
	if c.Scope.Installation != nil && (errors.Is(err, errUnknownTask) || errors.Is(err, errOutbox) || errors.Is(err, errDelivery)) {
		s.o.Auditor.Denied(auditedPath(r), c.Name)
	}
	return err
}

func auditedPath(r *http.Request) string {
	return r.Method + " " + r.URL.Path[:min(len(r.URL.Path), maxPath)]
}

func remoteOf(r *http.Request) string {
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	return remote
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
