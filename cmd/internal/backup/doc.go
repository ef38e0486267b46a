// Package backup takes a store into one file and puts it back.
//
// A backup is a tar file: for each stream the snapshot that its server made
// (in chunks, each an entry of its own, so that nothing has to fit into
// memory), then manifest.json, then the SHA-256 of all bytes before. A file
// with one byte changed, missing or too many is not restored.
//
// # What a backup holds
//
// The server snapshots one stream after the other, while writes go on. So the
// records (KV_STATE) come first and the log (WEBHOOKS) later: whatever a record
// names is in the log, and what the log holds beyond the records is admitted
// again, as after a crash. Consumers are not taken: a start makes them anew,
// and a replay of the whole log changes nothing (package consumers).
//
// A snapshot ends where its stream ended when it began, and lacks what was
// overwritten since: under load, records. So what was written to KV_STATE since
// follows its snapshot (see change), read until its end is reached.
//
// Verify restores into a server of its own, and looks among the rest for the
// record of every delivery that had been admitted before the first snapshot.
//
// # What a restore means
//
// The belay that the backup is of may have gone on after it was taken. What
// leaves belay at most once therefore does not leave a restored store by
// itself: see kv.Hold. Only a backup during which nobody worked can be
// continued without that, when a person says that nobody did since.
package backup
