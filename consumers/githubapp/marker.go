package githubapp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// markerOpen begins the hidden first line of a status comment.
const markerOpen = "<!-- belay:status "

// Thread is where a familiar has its one status comment.
type Thread struct {
	Repo     Repo
	Number   int // of the issue or pull request
	Familiar string
}

// String names the thread within this process.
func (t Thread) String() string { return fmt.Sprintf("%d/%d/%s", t.Repo.ID, t.Number, t.Familiar) }

// marker is the first line of a thread's comment. Its HMAC covers the thread,
// so that it proves nothing anywhere else, and cannot be made by who only
// knows the form. Whoever reads the comment can copy it: the author counts too.
func marker(key []byte, t Thread) string {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "v1\n%d\n%d\n%s", t.Repo.ID, t.Number, t.Familiar)
	return markerOpen + "v1 " + hex.EncodeToString(m.Sum(nil)) + " -->"
}

// marked reports whether a body begins with the thread's marker under one of the keys.
func (c *Client) marked(body string, t Thread) bool {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimRight(line, "\r ")
	for _, key := range c.markers {
		if hmac.Equal([]byte(line), []byte(marker(key, t))) {
			return true
		}
	}
	return false
}
