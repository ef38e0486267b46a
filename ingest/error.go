package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/outbox"
	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// Errors of this package; each has its row in answers.
var (
	errTooLarge      = errors.New("body is larger than the limit")
	errBusy          = errors.New("bodies in flight are over the limit")
	errSlowBody      = errors.New("body did not come in time")
	errBrokenBody    = errors.New("body ended early")
	errMissingEvent  = errors.New("no event type")
	errMethod        = errors.New("method is not allowed")
	errUnknownSource = errors.New("no such source")
	errNotFound      = errors.New("no such route")
	errUnknownTask   = errors.New("no such task")
	errGone          = errors.New("task is only a tombstone")
	errUnknownLog    = errors.New("no such log")
	errDelivery      = errors.New("no such delivery")
	errRemoteLog     = errors.New("no log on this machine")
	errOutbox        = errors.New("no such outbox record")
	errDenied        = errors.New("denied")
	errContentType   = errors.New("mutation is not application/json")
	errCrossSite     = errors.New("mutation comes from another site")
	errParseBody     = errors.New("body of the request is no JSON object")
	errParameter     = errors.New("parameter is not valid")
	errForeignCursor = fmt.Errorf("cursor of another list: %w", kv.ErrCursor)
	errRequestSize   = errors.New("body of the request is too large")
	errNoRouting     = errors.New("log returned a delivery without routing")
	errPanic         = errors.New("panic")
	errBlocked       = errors.New("operator tasks are not configured")
	errUnknownPull   = errors.New("no such pull request of the request's issue")
)

// Reasons of rejected webhooks, the closed list of a metric's label.
const (
	reasonMethod   = "method"
	reasonSource   = "unknown_source"
	reasonTooLarge = "too_large"
	reasonBusy     = "busy"
	reasonSlow     = "slow_body"
	reasonBroken   = "broken_body"
	reasonNoSig    = "missing_signature"
	reasonBadSig   = "invalid_signature"
	reasonNoEvent  = "missing_event"
	reasonNoID     = "missing_delivery"
	reasonBadID    = "invalid_delivery"
	reasonParse    = "parse"
	reasonReused   = "reused"
	reasonFull     = "store_full"
	reasonUnknown  = "store_unavailable"
	reasonPanic    = "panic"
	reasonReserved = "reserved_stream" // told to the client
	retryStorage   = 30                // seconds
	retryBusy      = 5
)

// answer is what one kind of error says to the client and to the metrics.
type answer struct {
	kind   error
	status int
	text   string
	reason string
	retry  int
}

// answers maps every kind of error to HTTP; the first match wins, the last
// row is for all others.
var answers = []answer{
	{errTooLarge, http.StatusRequestEntityTooLarge, "payload too large", reasonTooLarge, 0},
	{errBusy, http.StatusServiceUnavailable, "too many bodies in flight", reasonBusy, retryBusy},
	{errSlowBody, http.StatusRequestTimeout, "body not received in time", reasonSlow, 0},
	{errBrokenBody, http.StatusBadRequest, "body ended early", reasonBroken, 0},
	{github.ErrMissingSignature, http.StatusUnauthorized, "missing signature", reasonNoSig, 0},
	{github.ErrInvalidSignature, http.StatusUnauthorized, "invalid signature", reasonBadSig, 0},
	{errMissingEvent, http.StatusBadRequest, "missing event type", reasonNoEvent, 0},
	{github.ErrMissingDelivery, http.StatusBadRequest, "missing delivery id", reasonNoID, 0},
	{github.ErrInvalidDelivery, http.StatusBadRequest, "invalid delivery id", reasonBadID, 0},
	{github.ErrParse, http.StatusBadRequest, "parse error", reasonParse, 0},
	{kv.ErrReused, http.StatusConflict, "delivery id reused with another body", reasonReused, 0},
	{errMethod, http.StatusMethodNotAllowed, "method not allowed", reasonMethod, 0},
	{errUnknownSource, http.StatusNotFound, "unknown source", reasonSource, 0},
	{errDenied, http.StatusUnauthorized, "unauthorized", "", 0},
	{errCrossSite, http.StatusForbidden, "cross-site request", "", 0},
	{errContentType, http.StatusUnsupportedMediaType, "content type must be application/json", "", 0},
	{errParseBody, http.StatusBadRequest, "parse error", "", 0},
	{errParameter, http.StatusBadRequest, "bad parameter", "", 0},
	{errRequestSize, http.StatusRequestEntityTooLarge, "request too large", "", 0},
	{errNotFound, http.StatusNotFound, "not found", "", 0},
	{errUnknownLog, http.StatusNotFound, "unknown log", "", 0},
	{errRemoteLog, http.StatusNotFound, "no log of that attempt is kept here: it stays on the machine of the worker that ran it", "", 0},
	{errDelivery, http.StatusNotFound, "unknown delivery", "", 0},
	{errSettled, http.StatusConflict, "delivery needs no replay", "", 0},
	{ErrNoApp, http.StatusConflict, "a replay needs a GitHub App: set [github] app_id and private_key_file", "", 0},
	{ErrForgotten, http.StatusGone, "GitHub keeps deliveries for three days and has this one no more: cause the event again", "", 0},
	{ErrGitHub, http.StatusServiceUnavailable, "GitHub does not answer now", "", retryStorage},
	{errOutbox, http.StatusNotFound, "unknown outbox record", "", 0},
	{errUnknownPull, http.StatusNotFound, "unknown pull request", "", 0},
	{kv.ErrReserved, http.StatusBadRequest, "stream is reserved", "", 0},
	{errBlocked, http.StatusServiceUnavailable, "operator tasks are blocked until [operator] keys and repo are set", "", 0},
	{kv.ErrPoisoned, http.StatusInternalServerError, "internal error", "", 0},
	{errGone, http.StatusGone, "task retention has ended", "", 0},
	{errUnknownTask, http.StatusNotFound, "unknown task", "", 0},
	{view.ErrCursor, http.StatusBadRequest, "parameter cursor is not one of this list", "", 0},
	{kv.ErrCursor, http.StatusBadRequest, "parameter cursor is not one of this list", "", 0},
	{task.ErrState, http.StatusConflict, "state does not allow it", "", 0},
	{outbox.ErrState, http.StatusConflict, "status does not allow it", "", 0},
	{outbox.ErrInvalid, http.StatusBadRequest, "record is not valid", "", 0},
	{errPanic, http.StatusInternalServerError, "internal error", reasonPanic, 0},
	{kv.ErrFull, http.StatusServiceUnavailable, "storage unavailable", reasonFull, retryStorage},
	{nil, http.StatusServiceUnavailable, "storage unavailable", reasonUnknown, retryStorage},
}

func answerOf(err error) answer {
	for _, a := range answers[:len(answers)-1] {
		if errors.Is(err, a.kind) {
			return a
		}
	}
	return answers[len(answers)-1]
}

// wireError is the body of every answer that is no success.
type wireError struct {
	OK    *bool  `json:"ok,omitempty"`
	Error string `json:"error"`
	// Reason stands where a stream is refused for being reserved (OT-28).
	Reason string `json:"reason,omitempty"`
	// Limit and GitHubLimit stand in a 413 only.
	Limit       string `json:"limit,omitempty"`
	GitHubLimit string `json:"githubLimit,omitempty"`
}

// textError answers like its kind, with a text of its own.
type textError struct {
	kind error
	text string
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.kind }

// fail answers an error and returns its row.
func (s *Server) fail(w http.ResponseWriter, err error) answer {
	a := answerOf(err)
	out := wireError{Error: a.text}
	var t *textError
	if errors.As(err, &t) {
		out.Error = t.text
	}
	switch a.kind {
	case errDenied:
		out.OK = new(bool)
	case kv.ErrReserved:
		out.Reason = reasonReserved
	case errTooLarge:
		out.Limit, out.GitHubLimit = strconv.FormatInt(s.o.MaxBody, 10)+" bytes", "25 MB"
	}
	if a.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(a.retry))
	}
	writeJSON(w, a.status, out)
	return a
}

var jsonType = []string{"application/json"}

// writeJSON answers v. A client that is gone is nobody's error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
