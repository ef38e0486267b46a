// Package belay holds the defaults that every belay process starts from: the
// streams it keeps its records in and the configuration of its embedded
// nats-server. Both are plain files at the top of the repository, in the
// formats of NATS itself, so that they can be read, and used with the nats
// CLI, without belay.
package belay

import _ "embed"

// StreamsJSON is streams.json: every JetStream stream and durable consumer
// that belay needs. Package kv/streams parses and applies it. Treat it as
// read-only.
//
//go:embed streams.json
var StreamsJSON []byte

// NATSConf is nats.conf: the configuration of the embedded nats-server when no
// file is given with --nats-config. Package kv/natsserver parses it; it reads
// the variable BELAY_NATS_PASSWORD, which that package provides.
//
//go:embed nats.conf
var NATSConf string
