package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// chunkSize is what is sent in one message; the default max_payload of a
	// server is twice that.
	chunkSize = 512 << 10
	// silence is how long the server may say nothing.
	silence = time.Minute
	// checkTimeout bounds the server's reading through of a stream.
	checkTimeout = 30 * time.Minute
)

// Subjects of JetStream's API for snapshots.
const (
	snapshotSubject = "$JS.API.STREAM.SNAPSHOT."
	restoreSubject  = "$JS.API.STREAM.RESTORE."
)

// snapshotRequest asks for a snapshot.
type snapshotRequest struct {
	DeliverSubject string `json:"deliver_subject"`
	NoConsumers    bool   `json:"no_consumers"`
	ChunkSize      int    `json:"chunk_size"`
	CheckMessages  bool   `json:"jsck"`
}

// apiAnswer is what all answers of the API have.
type apiAnswer struct {
	Error *jetstream.APIError `json:"error"`
}

// snapshotAnswer comes before the first chunk. The configuration is kept as
// the server wrote it.
type snapshotAnswer struct {
	Config json.RawMessage       `json:"config"`
	State  jetstream.StreamState `json:"state"`
}

// call sends a request of the API and reads its answer.
func call(ctx context.Context, nc *nats.Conn, subject string, request, answer any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, subject, b)
	if err != nil {
		return err
	}
	return readAnswer(m.Data, answer)
}

func readAnswer(data []byte, answer any) error {
	var a apiAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	return json.Unmarshal(data, answer)
}

// snapshot has the server check a stream's messages and send all of it. begin
// gets what the stream is, then chunk each part; neither may keep its argument.
func snapshot(ctx context.Context, nc *nats.Conn, stream string, begin func(snapshotAnswer) error, chunk func([]byte) error) error {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var a snapshotAnswer
	cctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := call(cctx, nc, snapshotSubject+stream, snapshotRequest{inbox, true, chunkSize, true}, &a); err != nil {
		return fmt.Errorf("ask for a snapshot: %w", err)
	}
	if err := begin(a); err != nil {
		return err
	}
	for n := 1; ; n++ {
		m, err := receive(ctx, sub)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", n, err)
		}
		if len(m.Data) == 0 {
			return ended(m)
		}
		if i, ok := index(m.Reply); ok && i != n {
			return fmt.Errorf("chunk %d came as number %d", n, i)
		}
		if err := chunk(m.Data); err != nil {
			return err
		}
		if m.Reply != "" {
			if err := nc.Publish(m.Reply, nil); err != nil {
				return fmt.Errorf("acknowledge chunk %d: %w", n, err)
			}
		}
	}
}

func receive(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// ended reads the last message of a snapshot, whose status says how it ended.
func ended(m *nats.Msg) error {
	if s := m.Header.Get("Status"); s != "" && s != "204" {
		return fmt.Errorf("the server ended it: %s %s", s, m.Header.Get("Description"))
	}
	return nil
}

// index is the number of a chunk, the last token of where to acknowledge it.
func index(reply string) (int, bool) {
	n, err := strconv.Atoi(reply[strings.LastIndex(reply, ".")+1:])
	return n, err == nil
}

// upload has the server make a stream of a snapshot. next returns the parts,
// nil at the end.
func upload(ctx context.Context, nc *nats.Conn, stream string, config json.RawMessage, state jetstream.StreamState, next func() ([]byte, error)) (*jetstream.StreamInfo, error) {
	var to struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	request := struct {
		Config json.RawMessage       `json:"config"`
		State  jetstream.StreamState `json:"state"`
	}{config, state}
	if err := send(ctx, func(ctx context.Context) error { return call(ctx, nc, restoreSubject+stream, request, &to) }); err != nil {
		return nil, fmt.Errorf("ask for a restore: %w", err)
	}
	for {
		part, err := next()
		if err != nil {
			_, _ = nc.RequestWithContext(ctx, to.DeliverSubject, nil) // it shall wait for no more
			return nil, err
		}
		var m *nats.Msg
		if err := send(ctx, func(ctx context.Context) (err error) {
			m, err = nc.RequestWithContext(ctx, to.DeliverSubject, part)
			return err
		}); err != nil {
			return nil, fmt.Errorf("send a part: %w", err)
		}
		if part == nil || len(m.Data) > 0 {
			var info jetstream.StreamInfo
			if err := readAnswer(m.Data, &info); err != nil {
				return nil, err
			}
			if part != nil {
				return nil, errors.New("the server ended it early")
			}
			return &info, nil
		}
	}
}

// send bounds one exchange with the server.
func send(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return f(ctx)
}
