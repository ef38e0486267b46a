package githubapp

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// dying is the network of a process that is killed right after a number of
// mutations reached GitHub: it hears no answer to the last one.
type dying struct {
	next http.RoundTripper

	mu   sync.Mutex
	left int
	kill func()
}

func (d *dying) after(mutations int, kill func()) { d.left, d.kill = mutations, kill }

func (d *dying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/access_tokens") {
		return d.next.RoundTrip(r)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		d.kill()
		return nil, errors.New("killed before")
	}
	d.left--
	resp, err := d.next.RoundTrip(r)
	if d.left == 0 {
		d.kill()
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, errors.New("killed after")
	}
	return resp, err
}

// dying makes a client that can be killed.
func (k *kit) dying(t *testing.T) *Client {
	t.Helper()
	net := &http.Transport{}
	t.Cleanup(net.CloseIdleConnections)
	c, err := New(Options{
		AppID: k.AppID(), PrivateKey: k.PrivateKey(), APIURL: k.URL(), Now: k.clock.Now, Sleep: k.clock.Sleep,
		Timeout: 10 * time.Second, Transport: &dying{next: net},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
