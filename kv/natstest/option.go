package natstest

import "log/slog"

// Option changes what New starts.
type Option func(*options)

// options are the collected Options.
type options struct {
	dir        string
	log        *slog.Logger
	listen     bool
	syncAlways bool
	bare       bool
	maxStore   int64
	conf       string
}

// WithListener opens a client port on 127.0.0.1, chosen by the kernel, so that
// other processes can connect to Env.URL.
func WithListener() Option { return func(o *options) { o.listen = true } }

// WithSyncAlways syncs every message before it is acknowledged, as `belay
// serve` does.
func WithSyncAlways() Option { return func(o *options) { o.syncAlways = true } }

// WithMaxFileStore limits the store to so many bytes, to test a full one. The
// streams then have no max_bytes of their own.
func WithMaxFileStore(bytes int64) Option { return func(o *options) { o.maxStore = bytes } }

// WithConfig adds lines to the server's nats.conf, such as its users. One has to
// be {user: belay, password: $BELAY_NATS_PASSWORD}.
func WithConfig(text string) Option { return func(o *options) { o.conf = text } }

// WithDir uses a directory of the test's own instead of a fresh one.
func WithDir(dir string) Option { return func(o *options) { o.dir = dir } }

// WithoutStreams starts a server with no streams.
func WithoutStreams() Option { return func(o *options) { o.bare = true } }

// WithLogger logs what the server says.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }
