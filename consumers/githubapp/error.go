package githubapp

import (
	"errors"
	"fmt"
	"time"
)

// What an error asks of its caller; see the table of the package comment.
var (
	// ErrRateLimited: wait until the time that RateLimitError says. Nothing happened.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnauthorized: the App's key or the installation does not count any more.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: the App lacks a permission, or the installation is suspended.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound: there is no such thing, or the App cannot see it.
	ErrNotFound = errors.New("not found")
	// ErrValidation: GitHub refuses the request as it is; trying again is no use.
	ErrValidation = errors.New("refused")
	// ErrTransient: nothing happened, or nothing that a second try would
	// double; try again later.
	ErrTransient = errors.New("github is not available")
	// ErrUnknown: it may have happened. Look for it; never just repeat it.
	ErrUnknown = errors.New("outcome unknown")
)

// Error is one call that did not succeed.
type Error struct {
	// Kind is one of the errors above, never ErrRateLimited.
	Kind error
	// Op is what was tried, such as "create check run".
	Op string
	// Status is the answer's, 0 if there was none.
	Status int
	// Message is GitHub's own, cut to a line; it holds no token.
	Message string

	cause error
	again bool // ErrUnauthorized with a token that was new
}

// Error says what was tried and what came of it.
func (e *Error) Error() string {
	s := e.Op + ": " + e.Kind.Error()
	if e.Status != 0 {
		s += fmt.Sprintf(" (%d)", e.Status)
	}
	switch {
	case e.Message != "":
		s += ": " + e.Message
	case e.cause != nil:
		s += ": " + e.cause.Error()
	}
	return s
}

// Is finds the kind.
func (e *Error) Is(target error) bool {
	return target == e.Kind || e.again && target == ErrTransient
}

// Unwrap returns the cause, such as a context's end; nil for an answer.
func (e *Error) Unwrap() error { return e.cause }

// Scope says whose limit it is.
type Scope string

// The scopes.
const (
	// Primary is the number of requests an hour.
	Primary Scope = "primary"
	// Secondary is GitHub's judgement of too much at once.
	Secondary Scope = "secondary"
)

// RateLimitError is a limit that parks an installation; it is ErrRateLimited.
type RateLimitError struct {
	Scope        Scope
	Installation int64 // 0: the App's own calls
	Until        time.Time
	// Status is the answer's that said so, 0 if the call was not even sent.
	Status int
}

// Error says which limit and until when.
func (e *RateLimitError) Error() string { return e.Reason() }

// Reason is the limit for people, without the installation.
func (e *RateLimitError) Reason() string {
	return fmt.Sprintf("%s rate limit of github until %s", e.Scope, e.Until.UTC().Format(time.RFC3339))
}

// Is finds ErrRateLimited.
func (e *RateLimitError) Is(target error) bool { return target == ErrRateLimited }
