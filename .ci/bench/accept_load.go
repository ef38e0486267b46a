package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Names of the processes of accept.
const (
	childServer  = "child-server"
	childLoad    = "child-load"
	childPublish = "child-publish"
)

// loadJob tells the load how much to make. Each client waits for an answer
// before it sends the next request.
type loadJob struct {
	Addr    string
	Clients int
	Warm    time.Duration
	Span    time.Duration
}

// loaded is what the load saw within the span.
type loaded struct {
	Requests int     `json:"requests"`
	All      int     `json:"all"` // with those outside of the span
	Seconds  float64 `json:"seconds"`
	quantiles
}

// loadChild posts webhooks over keep-alive connections.
func loadChild(ctx context.Context, args []string) error {
	job, err := told[loadJob](args)
	if err != nil {
		return err
	}
	got, err := job.drive(ctx, func(ctx context.Context) (func() error, func(), error) {
		c, err := dial(ctx, job.Addr)
		if err != nil {
			return nil, nil, err
		}
		return c.post, func() { c.conn.Close() }, nil
	})
	if err != nil {
		return err
	}
	return say(got)
}

// drive runs Clients loops of one step each and times every step that ends
// within the span. open makes a client's step.
func (j loadJob) drive(ctx context.Context, open func(context.Context) (step func() error, done func(), err error)) (loaded, error) {
	var wg sync.WaitGroup
	took := make([][]time.Duration, j.Clients)
	errs := make([]error, j.Clients)
	ready, start := make(chan error, j.Clients), make(chan struct{})
	var from, to time.Time
	var steps atomic.Int64
	for i := range j.Clients {
		wg.Go(func() {
			step, done, err := open(ctx)
			ready <- err
			if err != nil {
				return
			}
			defer done()
			<-start
			for now := time.Now(); now.Before(to) && errs[i] == nil && ctx.Err() == nil; {
				errs[i] = step()
				end := time.Now()
				steps.Add(1)
				if end.After(from) && end.Before(to) {
					took[i] = append(took[i], end.Sub(now))
				}
				now = end
			}
		})
	}
	var failed error
	for range j.Clients {
		failed = errors.Join(failed, <-ready)
	}
	from = time.Now().Add(j.Warm)
	to = from.Add(j.Span)
	close(start)
	wg.Wait()
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	return loaded{Requests: len(all), All: int(steps.Load()), Seconds: j.Span.Seconds(), quantiles: quantilesOf(all)}, errors.Join(append(errs, failed)...)
}

// client is one keep-alive connection. net/http's would take more of the
// processors than the server under test.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	reqs *requests
}

func dial(ctx context.Context, addr string) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	reqs, err := newRequests(addr)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 2048), reqs: reqs}, nil
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length: ")
)

// post sends a new webhook and reads the answer, which must be 200 with a task.
func (c *client) post() error {
	raw, err := c.reqs.next()
	if err != nil {
		return err
	}
	if _, err := c.conn.Write(raw); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if !bytes.HasPrefix(status, statusOK) {
		return fmt.Errorf("answer is %q", bytes.TrimSpace(status))
	}
	size := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if n, ok := bytes.CutPrefix(line, contentLength); ok {
			size, _ = strconv.Atoi(string(n))
		}
	}
	body, err := c.in.Peek(size)
	if err != nil || !bytes.Contains(body, []byte(`"task":"`)) {
		return errors.Join(fmt.Errorf("answer has no task: %q", body), err)
	}
	_, err = io.CopyN(io.Discard, c.in, int64(size))
	return err
}
