package githubapp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// operatorOpen begins the hidden first line of an operator's issue.
const operatorOpen = "<!-- belay:operator v1 "

// OperatorMark says which attempt of which operator request made an issue.
type OperatorMark struct {
	Tenant    string
	RequestID string
	AttemptID string
}

// OperatorMarker is the first line of the body of the issue that an attempt
// makes in a repository. Its HMAC covers all that it says, and the repository.
// Whoever reads the issue can copy it: the author counts too.
func (c *Client) OperatorMarker(repoID int64, m OperatorMark) string {
	return operatorMarker(c.markers[0], repoID, m)
}

func operatorMarker(key []byte, repoID int64, m OperatorMark) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "operator v1\n%d\n%s\n%s\n%s", repoID, m.Tenant, m.RequestID, m.AttemptID)
	return fmt.Sprintf("%s%s %s %s %s -->", operatorOpen, m.Tenant, m.RequestID, m.AttemptID, hex.EncodeToString(h.Sum(nil)))
}

// OperatorMark reads the marker that an issue's body begins with; false if
// there is none that this App signed for the repository.
func (c *Client) OperatorMark(repoID int64, body string) (OperatorMark, bool) {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimRight(line, "\r ")
	inner, ok := strings.CutPrefix(line, operatorOpen)
	if !ok {
		return OperatorMark{}, false
	}
	word := strings.Split(strings.TrimSuffix(inner, " -->"), " ")
	if len(word) != 4 {
		return OperatorMark{}, false
	}
	m := OperatorMark{Tenant: word[0], RequestID: word[1], AttemptID: word[2]}
	for _, key := range c.markers {
		if hmac.Equal([]byte(line), []byte(operatorMarker(key, repoID, m))) {
			return m, true
		}
	}
	return OperatorMark{}, false
}
