// Package natsserver runs the nats-server that is embedded in belay.
//
// Start prepares the data directory, reads nats.conf and starts the server;
// everything that can go wrong on the way comes back as an error of one line
// that says what to change, never as an exit of the process. In order:
//
//	make the directory (0700)  -> ErrDisk
//	lock it (flock)            -> ErrDirTaken
//	write and sync a probe     -> ErrDisk
//	make or read the password  -> ErrDisk
//	read nats.conf             -> ErrConfig
//	try the ports              -> ErrPortTaken, ErrConfig
//	start, under a watchdog    -> ErrStore, ErrConfig, the context's error
//
// Guaranteed: at most one belay server uses a directory at a time, as
// nats-server itself has no lock; the server installs no signal handlers; a
// server that was shut down has written all it acknowledged; unless the file
// says otherwise, every acknowledged message is synced to disk first.
//
// The directory then holds:
//
//	lock            the flock; its content is the holder's process id
//	nats.password   the password of the user belay, 0600
//	jetstream/      nats-server's store
package natsserver
