// Package streams applies streams.json, the list of JetStream streams and
// durable consumers that belay keeps its records in, to a NATS server.
//
// The file is declarative and wins over the server: what is missing is
// created, what differs is updated. Nothing is ever deleted or recreated, so a
// change that the server refuses for an existing stream stays visible in the
// Report and in Diff, and costs no data. Left to the operator, and kept by an
// update, are a stream's placement, metadata of other owners and a paused
// consumer.
//
// Versions of belay may run side by side on one server. Each stream carries
// the schema version of the file in its metadata, belay_version. An older
// belay that finds a newer one changes nothing at all and gets ErrNewerStore.
// Two of one version that differ in a setting both win in turn; the consumers
// are the same durable ones, so both keep working.
package streams
