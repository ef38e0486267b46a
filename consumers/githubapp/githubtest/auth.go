package githubtest

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tokenLife is how long an installation token lives.
const tokenLife = time.Hour

// grant is an installation token.
type grant struct {
	installation *installation
	repos        []int64 // nil: all of the installation
	permissions  map[string]string
	expires      time.Time
	revoked      bool
}

// Grant is an installation token that was given out, without its value.
type Grant struct {
	Installation int64
	// Repositories are the ids it is scoped to; empty means all.
	Repositories []int64
	Permissions  map[string]string
	At           time.Time
}

// Grants lists the tokens that were given out, oldest first.
func (s *Server) Grants() []Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.grants)
}

// RevokeTokens makes every token so far invalid.
func (s *Server) RevokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.tokens {
		g.revoked = true
	}
}

// TokenValues lists the tokens themselves, for tests that look for leaks.
func (s *Server) TokenValues() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.tokens))
}

func bearer(r *http.Request) string {
	h := r.Header.Get("Authorization")
	for _, scheme := range []string{"Bearer ", "bearer ", "token "} {
		if v, ok := strings.CutPrefix(h, scheme); ok {
			return v
		}
	}
	return ""
}

// asApp lets in whoever signs as the App.
func (s *Server) asApp(next func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := s.checkJWT(bearer(r)); problem != "" {
			fail(w, http.StatusUnauthorized, problem, "")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count(w, &s.own, s.o.AppRateLimit, "API rate limit exceeded.") {
			next(w, r)
		}
	}
}

// checkJWT says what is wrong with an App's JWT, as GitHub does.
func (s *Server) checkJWT(token string) string {
	const undecodable = "A JSON web token could not be decoded"
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return undecodable
	}
	var header struct{ Alg string }
	var claims struct {
		Iat json.Number
		Exp json.Number
		Iss any
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) || header.Alg != "RS256" {
		return undecodable
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(&s.o.Key.PublicKey, crypto.SHA256, sum[:], sig) != nil {
		return undecodable
	}
	iat, ierr := claims.Iat.Int64()
	exp, eerr := claims.Exp.Int64()
	now := s.o.JWTNow().Unix()
	switch {
	case fmt.Sprint(claims.Iss) != strconv.FormatInt(s.o.AppID, 10):
		return "Integration must generate a public key"
	case ierr != nil || iat > now:
		return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
	case eerr != nil || exp <= now:
		return "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires"
	case exp > now+600:
		return "'Expiration time' claim ('exp') is too far in the future"
	}
	return ""
}

func decodePart(part string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return false
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	return d.Decode(v) == nil
}

// createToken gives out an installation token.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	inst := s.installations[id(r, "id")]
	if inst == nil {
		notFound(w)
		return
	}
	if inst.suspended {
		fail(w, http.StatusForbidden, "This installation has been suspended", "")
		return
	}
	var in struct {
		Repositories  []string          `json:"repositories"`
		RepositoryIDs []int64           `json:"repository_ids"`
		Permissions   map[string]string `json:"permissions"`
	}
	if !decode(w, r, &in) {
		return
	}
	g := &grant{installation: inst, permissions: in.Permissions, expires: s.o.Now().Add(tokenLife)}
	if !s.scope(g, in.Repositories, in.RepositoryIDs) {
		fail(w, http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.", "")
		return
	}
	if g.permissions == nil {
		g.permissions = maps.Clone(s.o.Permissions)
	}
	for name, level := range g.permissions {
		if rank(level) == 0 || rank(level) > rank(s.o.Permissions[name]) {
			fail(w, http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.", "")
			return
		}
	}
	g.permissions["metadata"] = "read"
	s.nextID++
	token := fmt.Sprintf("ghs_%036d", s.nextID)
	s.tokens[token] = g
	s.grants = append(s.grants, Grant{inst.id, g.repos, maps.Clone(g.permissions), s.o.Now()})
	out := object{"token": token, "expires_at": date(g.expires), "permissions": g.permissions, "repository_selection": "all"}
	if g.repos != nil {
		list := []object{}
		for _, n := range g.repos {
			list = append(list, s.repos[n].json(s))
		}
		out["repository_selection"], out["repositories"] = "selected", list
	}
	reply(w, http.StatusCreated, out)
}

// scope narrows a token to repositories of its installation.
func (s *Server) scope(g *grant, names []string, ids []int64) bool {
	for _, name := range names {
		if repo := s.find(g.installation.account, name); repo != nil {
			ids = append(ids, repo.ID)
		} else {
			return false
		}
	}
	for _, n := range ids {
		if repo := s.repos[n]; repo == nil || repo.installation != g.installation {
			return false
		}
	}
	g.repos = ids
	return true
}

func rank(level string) int {
	return map[string]int{"read": 1, "write": 2, "admin": 3}[level]
}

// allows reports whether a token has one of the permissions, each "name:level".
func (g *grant) allows(anyOf ...string) bool {
	return slices.ContainsFunc(anyOf, func(p string) bool {
		name, level, _ := strings.Cut(p, ":")
		return rank(g.permissions[name]) >= rank(level)
	})
}

// call is one request with an installation token.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	grant *grant
	repo  *repository
}

// asInstallation lets in whoever has a token for the repository with one of
// the permissions, and counts against its rate limit.
func (s *Server) asInstallation(next func(*call), anyOf ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		g := s.tokens[bearer(r)]
		if g == nil || g.revoked || !s.o.Now().Before(g.expires) {
			fail(w, http.StatusUnauthorized, "Bad credentials", "")
			return
		}
		if !s.count(w, &g.installation.allowance, s.o.RateLimit, fmt.Sprintf("API rate limit exceeded for installation ID %d.", g.installation.id)) {
			return
		}
		repo := s.find(r.PathValue("owner"), r.PathValue("repo"))
		if n := id(r, "repo_id"); n > 0 {
			repo = s.repos[n]
		}
		if repo == nil || repo.installation != g.installation || g.repos != nil && !slices.Contains(g.repos, repo.ID) {
			notFound(w)
			return
		}
		c := &call{w: w, r: r, grant: g, repo: repo}
		if !g.allows(anyOf...) {
			fail(w, http.StatusForbidden, "Resource not accessible by integration", "")
		} else {
			next(c)
		}
		s.record(c)
	}
}

// allowance is what was used of an hour's requests.
type allowance struct {
	used  int
	reset time.Time
}

// count takes one request off an allowance of limit requests an hour.
func (s *Server) count(w http.ResponseWriter, a *allowance, limit int, message string) bool {
	now := s.o.Now()
	if !now.Before(a.reset) {
		a.reset, a.used = now.Add(time.Hour), 0
	}
	if a.used >= limit {
		limitHeader(w.Header(), limit, 0, a.reset)
		fail(w, http.StatusForbidden, message, "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api")
		return false
	}
	a.used++
	limitHeader(w.Header(), limit, limit-a.used, a.reset)
	return true
}
