package operator

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// StreamPrefix comes before a request's id in the name of its stream. It is
// reserved: nobody else appends there.
const StreamPrefix = "cockpit-task:"

// SubjectPrefix begins the subjects of operator tasks; reserved as well.
const SubjectPrefix = "operator."

// RequestID names a request: a UUID in lower case, in its canonical form.
type RequestID string

var canonicalUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ErrRequestID means that a request id is not in its one spelling (OT-2).
var ErrRequestID = errors.New("request id is not a lowercase canonical UUID")

// ParseRequestID reads an id; every spelling but the canonical is refused.
func ParseRequestID(s string) (RequestID, error) {
	if !canonicalUUID.MatchString(s) {
		return "", ErrRequestID
	}
	return RequestID(s), nil
}

// Stream is the name of the request's stream.
func (id RequestID) Stream() string { return StreamPrefix + string(id) }

// Reserved reports whether a stream's name is one that only the operator task
// store may append to, in whatever letter case (OT-24).
func Reserved(stream string) bool {
	s := strings.ToLower(strings.TrimSpace(stream))
	return strings.HasPrefix(s, StreamPrefix) || strings.HasPrefix(s, SubjectPrefix) || s == strings.TrimSuffix(SubjectPrefix, ".")
}

// Tenant ids as REQUIREMENTS has them.
var (
	tenantForm = regexp.MustCompile(`^[a-z][a-z0-9]{1,19}$`)
	// ErrTenant means that an answer of the resolver is no tenant's id.
	ErrTenant = errors.New("tenant id is not canonical")
)

// tenantPrefixes are the beginnings that systems beside ours reserve.
var tenantPrefixes = []string{"pg", "kube"}

// CanonicalTenant returns a tenant's id trimmed and in lower case. What is
// blank, not in the form, or reserved is refused and never defaulted (OT-32).
func CanonicalTenant(answer string, reserved []string) (string, error) {
	id := strings.ToLower(strings.TrimSpace(answer))
	if !tenantForm.MatchString(id) {
		return "", fmt.Errorf("%w: %q is not `%s`", ErrTenant, answer, tenantForm)
	}
	for _, p := range tenantPrefixes {
		if strings.HasPrefix(id, p) {
			return "", fmt.Errorf("%w: %q begins with %q", ErrTenant, answer, p)
		}
	}
	if slices.Contains(reserved, id) {
		return "", fmt.Errorf("%w: %q is reserved", ErrTenant, answer)
	}
	return id, nil
}

// RepoTenant is the tenant of a repository by a resolver's answer: tenant 0
// when the repository is not mapped (resolved is false), else the answer if it
// is canonical (OT-29…32).
func RepoTenant(answer string, resolved bool, tenant0 string, reserved []string) (string, error) {
	if !resolved {
		answer = tenant0
	}
	return CanonicalTenant(answer, reserved)
}
