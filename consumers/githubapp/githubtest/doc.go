// Package githubtest is a stand-in for GitHub: an HTTP server in this process
// that answers as GitHub's REST documentation says, for the calls that belay
// makes. Tests use it, and belay demo shows with it what GitHub would show.
//
//	request ──▶ fault before? ──▶ JWT or token ──▶ permission ──▶ effect ──▶ fault after? ──▶ answer
//	                                                                │
//	                                                          Mutations, Grants
//
// It refuses what GitHub refuses: an app's token that is badly signed or out
// of its time, an installation token that has expired, permissions that the
// App was not granted or the token was not given (403), repositories outside
// of a token's scope (404), check runs for unknown commits, bodies that are
// too long, a second pull request for one head (422).
//
// Every request that would change something is recorded with the permissions
// of the token that made it and with what became of it, whatever the client
// was told: a Fault may lose, delay or falsify the answer before or after the
// effect. So a test can say how often something happened, which is what a
// client that only saw a timeout cannot.
//
// It is no GitHub: there is no git behind it, no GraphQL, no web page, and
// nothing survives Close. It takes no part in belay's own decisions and
// imports nothing of belay.
package githubtest
