// Package config reads belay's configuration: a TOML file and the environment,
// into plain structs. It is the only user of the TOML library.
//
// A value comes from the first of these that has it:
//
//	the environment   BELAY_<SECTION>_<KEY>; lists are comma separated
//	the file          --config, else $BELAY_CONFIG, else ./belay.toml
//	the default       the `default` tag of the field
//
// An empty variable counts as one that is not set. Familiars are only read
// from the file; where there is no file, there is one, `belay`.
//
// Reading is strict: a key or variable that belay does not know is a problem,
// as is a value that cannot work. All problems are reported together, each
// with its key, its line, its value (secrets excepted) and what to do next.
//
// Secrets are of type redact.Secret, which no formatting prints; a key that ends in
// _file or _files names the files that hold them.
package config
