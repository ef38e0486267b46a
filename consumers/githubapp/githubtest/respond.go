package githubtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// object is a JSON object.
type object = map[string]any

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// fail answers with GitHub's shape of an error.
func fail(w http.ResponseWriter, status int, message, doc string, errs ...object) {
	body := object{"message": message, "status": strconv.Itoa(status)}
	if doc == "" {
		doc = "https://docs.github.com/rest"
	}
	body["documentation_url"] = doc
	if len(errs) > 0 {
		body["errors"] = errs
	}
	reply(w, status, body)
}

func notFound(w http.ResponseWriter) { fail(w, http.StatusNotFound, "Not Found", "") }

func invalid(w http.ResponseWriter, resource, field, code, message string) {
	e := object{"resource": resource, "code": code}
	if field != "" {
		e["field"] = field
	}
	if message != "" {
		e["message"] = message
	}
	fail(w, http.StatusUnprocessableEntity, "Validation Failed", "", e)
}

// decode reads a request's JSON; an empty body is an empty object.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	b, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err == nil && len(b) > 0 {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "Problems parsing JSON", "")
		return false
	}
	return true
}

// page cuts a list by page and per_page, and says in Link where it goes on.
func page[T any](w http.ResponseWriter, r *http.Request, base string, all []T) []T {
	q := r.URL.Query()
	per := number(q, "per_page", 30, 100)
	n := number(q, "page", 1, 1<<30)
	from := min((n-1)*per, len(all))
	to := min(from+per, len(all))
	if to < len(all) {
		q.Set("page", strconv.Itoa(n+1))
		w.Header().Set("Link", fmt.Sprintf("<%s%s?%s>; rel=\"next\"", base, r.URL.Path, q.Encode()))
	}
	return all[from:to]
}

// number reads a positive number of a query.
func number(q url.Values, name string, otherwise, most int) int {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 1 {
		return otherwise
	}
	return min(n, most)
}

func id(r *http.Request, name string) int64 {
	n, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// date writes a time as GitHub does, to the second.
func date(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// limitHeader writes the headers of the primary rate limit.
func limitHeader(h http.Header, limit, remaining int, reset time.Time) {
	h.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("X-RateLimit-Used", strconv.Itoa(limit-remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
}
