// Package githubapp is belay as a GitHub App: its tokens, what it reads of a
// task's repository, and what of a task shows on GitHub. It is the only
// package that knows go-github, and it knows no store: what must be
// remembered between two calls is found again on GitHub.
//
// # Effects
//
// Safety: every creation is looked for before it is made, and where its
// answer was lost it is looked for again, never repeated blindly.
//
//	effect             evidence it is found by
//	check run          our App, external_id = task id, at the task's head
//	status comment     author = our bot, and a marker with an HMAC over (familiar, repository, number)
//	pull request       head branch, in any state
//
//	find ──found──────────────────────────────▶ use it
//	  └─none─▶ create ──answered──────────────▶ use it
//	               ├─refused─▶ the error (a duplicate is looked for first)
//	               └─unknown─▶ find, after 0 s, 1 s, 3 s ──none──▶ ErrUnknown
//
// An edit of a known check run or comment may be sent twice: it says the same.
//
// # Errors
//
// Each says what its caller must do; Is finds these in it:
//
//	seen                                      read, edit       create
//	not sent: no connection                   ErrTransient     ErrTransient
//	sent, no answer: timeout, dropped         ErrTransient     ErrUnknown
//	5xx                                       ErrTransient     ErrUnknown
//	2xx that cannot be read                   ErrTransient     ErrUnknown
//	401 with an installation token            new token, once; then ErrUnauthorized and ErrTransient
//	401 with the App's JWT                    ErrUnauthorized
//	403 or 429, remaining 0                   ErrRateLimited, primary, until the reset
//	403 or 429, secondary limit               ErrRateLimited, secondary
//	other 403, 451                            ErrForbidden
//	404, 410                                  ErrNotFound
//	408, 409, 425; 422 of a commit not there yet   ErrTransient
//	other 4xx                                 ErrValidation
//
// What is transient is tried three times within a call, seconds apart; the
// rest is for the task's next attempt.
//
// # Limits
//
// A limit parks its installation in this process: calls for it fail at once
// with ErrRateLimited until the time that GitHub named. A secondary limit
// without a time parks for 60 s, doubled each time up to an hour, until a
// write succeeds. A success with nothing remaining parks too. Others go on; nothing sleeps on a limit,
// so a parked task costs no slot. Writes of one installation are made one
// after the other, a second apart.
//
// # Tokens
//
// Three roles, each for one repository and never more than it needs. They are
// cached, renewed five minutes before they end, and printed by nothing
// (redact.Secret). A run gets a new one from its TokenBroker.
package githubapp
