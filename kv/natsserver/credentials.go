package natsserver

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// credentials are what an in-process connection has to present; zero means
// that the server asks for nothing.
type credentials struct {
	user, password, token string
}

// options returns the credentials for nats.go.
func (c credentials) options() []nats.Option {
	switch {
	case c.token != "":
		return []nats.Option{nats.Token(c.token)}
	case c.user != "":
		return []nats.Option{nats.UserInfo(c.user, c.password)}
	}
	return nil
}

// findCredentials picks from a parsed file how belay itself logs in. Without
// any authorization in the file, or with a no_auth_user, it need not. Several
// users have to include one named belay with belay's own password, since a
// hashed password or a key cannot be presented.
func findCredentials(opts *server.Options, password, file string) (credentials, error) {
	switch {
	case opts.NoAuthUser != "":
		return credentials{}, nil
	case opts.Username != "" && !hashed(opts.Password):
		return credentials{user: opts.Username, password: opts.Password}, nil
	case opts.Authorization != "" && !hashed(opts.Authorization):
		return credentials{token: opts.Authorization}, nil
	}
	for _, u := range opts.Users {
		if u.Username == userName && u.Password == password {
			return credentials{user: userName, password: password}, nil
		}
	}
	if opts.Username == "" && opts.Authorization == "" && len(opts.Users) == 0 && len(opts.Nkeys) == 0 &&
		len(opts.TrustedOperators) == 0 && opts.AuthCallout == nil {
		return credentials{}, nil
	}
	return credentials{}, fail(ErrConfig, nil,
		"%s has no user that belay can log in as: add {user: %s, password: $%s} to its users", file, userName, passwordVar)
}

// hashed reports whether a password is a bcrypt hash.
func hashed(password string) bool {
	return strings.HasPrefix(password, "$2")
}
