// Package doctor checks a configuration against the machine that it is for,
// and says of each thing that is wrong or doubtful what to do.
//
// It is safe to run beside a running belay: it writes nothing but a probe file
// in the data folder, shows no secret, and asks no server unless it is given a
// Probe or an App.
//
// Its exit codes are 0 without errors, 1 with errors; a configuration that
// cannot be read at all is 2 and never comes here.
package doctor
