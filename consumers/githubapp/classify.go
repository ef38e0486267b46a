package githubapp

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit/github_secondary_ratelimit"
	"github.com/google/go-github/v88/github"
)

// effect is what a repeated request would do.
type effect int

const (
	read   effect = iota // nothing
	edit                 // the same again
	create               // a second one
)

// classify is the table of the package comment without limits and 401. sent
// reports whether any of the request may have left this process.
func classify(op string, e effect, resp *http.Response, err error, sent bool) *Error {
	out := &Error{Op: op, cause: err}
	lost := ErrTransient
	if e == create {
		lost = ErrUnknown
	}
	if resp == nil {
		out.Kind = lost
		if !sent {
			out.Kind = ErrTransient
		}
		return out
	}
	out.Status = resp.StatusCode
	var doc string
	if out.Message, doc = message(err); out.Message != "" || doc != "" {
		out.cause = nil
	}
	switch n := resp.StatusCode; {
	case n < 400, n >= 500:
		out.Kind = lost
	case n == http.StatusUnauthorized:
		out.Kind = ErrUnauthorized
	case n == http.StatusForbidden, n == http.StatusUnavailableForLegalReasons:
		out.Kind = ErrForbidden
	case n == http.StatusNotFound, n == http.StatusGone:
		out.Kind = ErrNotFound
	case n == http.StatusRequestTimeout, n == http.StatusConflict, n == http.StatusTooEarly, n == http.StatusTooManyRequests,
		n == http.StatusUnprocessableEntity && strings.HasPrefix(out.Message, "No commit found for SHA"):
		out.Kind = ErrTransient
	default:
		out.Kind = ErrValidation
	}
	return out
}

// message takes GitHub's own words out of go-github's errors.
func message(err error) (text, doc string) {
	var plain *github.ErrorResponse
	var primary *github.RateLimitError
	var secondary *github.AbuseRateLimitError
	switch {
	case errors.As(err, &plain):
		text, doc = plain.Message, plain.DocumentationURL
		for _, e := range plain.Errors {
			text += "; " + strings.TrimSpace(e.Resource+" "+e.Field+" "+e.Code+" "+e.Message)
		}
	case errors.As(err, &primary):
		text = primary.Message
	case errors.As(err, &secondary):
		text = secondary.Message
	}
	return oneLine(text, 500), doc
}

// limited reads a rate limit out of an answer, nil if it is none. A zero
// Until means that GitHub named no time.
func limited(resp *http.Response, err error, now time.Time) *RateLimitError {
	if resp == nil || resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	if resp.Header.Get(github_secondary_ratelimit.HeaderXRateLimitRemaining) == "0" {
		return &RateLimitError{Scope: Primary, Until: reset(resp.Header, now)}
	}
	after := seconds(resp.Header, github_secondary_ratelimit.HeaderRetryAfter)
	text, doc := message(err)
	body := github_secondary_ratelimit.SecondaryRateLimitBody{Message: text, DocumentURL: doc}
	var abuse *github.AbuseRateLimitError
	if after <= 0 && resp.StatusCode != http.StatusTooManyRequests && !body.IsSecondaryRateLimit() && !errors.As(err, &abuse) &&
		!strings.Contains(strings.ToLower(text), "secondary rate limit") {
		return nil
	}
	out := &RateLimitError{Scope: Secondary}
	switch {
	case after > 0:
		out.Until = now.Add(min(time.Duration(after)*time.Second, maxPark))
	case resp.Header.Get(github_secondary_ratelimit.HeaderXRateLimitRemaining) == "":
		out.Until = reset(resp.Header, now)
	}
	return out
}

// maxPark bounds what one answer can park for.
const maxPark = 24 * time.Hour

// reset is the time of X-RateLimit-Reset, zero if it is not a time to come.
func reset(h http.Header, now time.Time) time.Time {
	at := time.Unix(seconds(h, github_secondary_ratelimit.HeaderXRateLimitReset), 0)
	if !at.After(now) || at.Sub(now) > maxPark {
		return time.Time{}
	}
	return at
}

func seconds(h http.Header, name string) int64 {
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n
}
