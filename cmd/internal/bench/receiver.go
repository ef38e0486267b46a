package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv/redact"
	"github.com/belay-run/belay/kv/task"
)

// concurrency is how many requests one recipient gets at once: what serve's
// relay gives to one that answers.
const concurrency = 16

// receiver is the other end, on loopback.
type receiver struct {
	url string
	srv *http.Server
}

// newReceiver reads every body and then lets handler answer; nil answers 200.
func newReceiver(ctx context.Context, handler http.HandlerFunc) (*receiver, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replies: %w", err)
	}
	rx := &receiver{url: "http://" + l.Addr().String() + "/hook", srv: &http.Server{
		ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if handler != nil {
				handler(w, r)
			}
		}),
	}}
	go func() { _ = rx.srv.Serve(l) }()
	return rx, nil
}

func (rx *receiver) close() error {
	if err := rx.srv.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("close receiver: %w", err)
	}
	return nil
}

// secrets are those of a configured callback; they guard nothing here.
func secrets() []redact.Secret {
	return []redact.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw2J9Pm0aGx1c="}
}

// payload is an event as the end of a task makes it.
func payload() ([]byte, error) {
	at := task.At(time.Now())
	in, err := relay.CallbackIntent(task.Record{
		ID: "5f0f6f0e-5b4b-5c55-9a6a-0d8a2a3f7f10", State: task.Completed, ResultStatus: task.ResultSuccess,
		Kind:  task.Kind{Name: task.FixIssue, IssueNumber: 43, IssueTitle: "Add a test for the parser"},
		Title: "#43 Add a test for the parser", Summary: "Added a table test for the parser's edge cases; all tests pass.",
		InstallationID: 7, RepoID: 99, Repo: "acme/shop", Number: 43, Branch: "belay/43", PRNumber: 44,
		PRURL: "https://github.com/acme/shop/pull/44", FamiliarID: "belay", Attempts: 1, CreatedAt: at, UpdatedAt: at,
	}, 0, "bench", "")
	return in.Payload, err
}
