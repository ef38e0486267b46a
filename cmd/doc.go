// Package cmd holds the command belay and what composes it. It has no code of
// its own: its test parses every Go file of the module and enforces the rules
// of the house, among them who may import whom.
//
// Imports go down only:
//
//	cmd                          composes all; nothing imports it
//	ingest, consumers            never each other, nor each other's children
//	kv                           the stores
//	kv/task kv/outbox kv/operator kv/redact    the domains
//
// A parent may use its children, a child never its parent, and a child of
// ingest or consumers no sibling. Below kv, any package may use a domain, and
// kv/natstest may use kv/natsserver and kv/streams. The package at the top of
// the module only embeds files, and whoever needs those may import it.
//
// Outside of tests, a library stays where its fence is:
//
//	github.com/nats-io/nats-server    kv/natsserver
//	github.com/nats-io/nats.go        kv and below without the domains, consumers,
//	                                  consumers/relay, cmd/internal
//	github.com/go-chi/chi             ingest
//	go-github, ghinstallation, go-github-ratelimit    consumers/githubapp and below
//	github.com/pelletier/go-toml      cmd/internal/config
//	github.com/spf13/cobra            cmd/belay
//
// The domains use the standard library only, and nothing of the module.
// cmd/internal/config is imported by cmd only: packages below take plain
// options.
package cmd
