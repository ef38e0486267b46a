package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxRounds is how often Reconcile changes the same streams when another
	// belay, of another version, does so meanwhile.
	maxRounds = 4
	// firstWait and lastWait bound the pauses while JetStream is not there.
	firstWait, lastWait = 100 * time.Millisecond, 2 * time.Second
	// minBytes is the least max_bytes that a stream is created with on a small
	// disk.
	minBytes = 8 << 20

	// codeUnavailable is the class of JetStream's answers that mean: not now.
	codeUnavailable = 503

	// JetStream's error codes, beside those that the client names.
	errInsufficientResources jetstream.ErrorCode = 10023
	errStorageExceeded       jetstream.ErrorCode = 10047
	errNoPeers               jetstream.ErrorCode = 10005
)

// ErrNotAllowed means that the NATS user may not make a change.
var ErrNotAllowed = errors.New("the NATS user may not; next: `belay streams apply` with a user that may")

// Report says what Reconcile did.
type Report struct {
	// Created and Updated were missing, or differed, and are now as the file
	// says.
	Created, Updated []Change
	// Refused are what the server would not change, with its answer in Err.
	// They work as they were; for a stream that was created smaller than the
	// file says, because the disk is, Create is set and Fields says how.
	Refused []Change
}

// Reconcile makes the server's streams and consumers as the set says. While
// the server cannot answer (no leader, JetStream still recovering, connection
// lost) it tries again until ctx ends.
//
// A refused update of something that exists is no error: see Report.Refused.
// Errors are a refused creation, ErrNewerStore (nothing was changed), and the
// end of ctx.
func Reconcile(ctx context.Context, js jetstream.JetStream, set Set, o Options) (Report, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &reconciler{js: js, log: o.Logger}
	for round := 0; ; round++ {
		var changes []Change
		err := r.wait(ctx, func() (err error) {
			changes, err = Diff(ctx, js, set, o)
			return err
		})
		if err != nil {
			return r.report, err
		}
		changes = slices.DeleteFunc(changes, r.refused)
		if round == maxRounds {
			changes = slices.DeleteFunc(changes, func(c Change) bool { return !c.Create })
		}
		switch {
		case len(changes) == 0:
			return r.report, nil
		case round == maxRounds:
			return r.report, fmt.Errorf("%s: removed again and again by somebody else", changes[0])
		}
		for _, c := range changes {
			if err := r.wait(ctx, func() error { return r.apply(ctx, c) }); err != nil {
				return r.report, err
			}
		}
	}
}

// reconciler is one run of Reconcile.
type reconciler struct {
	js     jetstream.JetStream
	log    *slog.Logger
	report Report
}

// refused reports whether the server has already refused a change.
func (r *reconciler) refused(c Change) bool {
	return slices.ContainsFunc(r.report.Refused, func(x Change) bool { return x.Name() == c.Name() })
}

// apply makes one change and records it.
func (r *reconciler) apply(ctx context.Context, c Change) error {
	err := r.send(ctx, c)
	switch {
	case err == nil && c.Create:
		r.log.Info("created in JetStream", "name", c.Name())
		r.report.Created = append(r.report.Created, c)
	case err == nil:
		r.log.Info("updated in JetStream", "name", c.Name(), "change", c.String())
		r.report.Updated = append(r.report.Updated, c)
	case raced(err):
		r.log.Debug("changed by another belay meanwhile", "name", c.Name())
	case c.Create && apiCode(err) == errStorageExceeded && c.stream.MaxBytes > minBytes:
		return r.createSmaller(ctx, c, err)
	case c.Create || unavailable(err) || apiCode(err) == 0 && !errors.Is(err, ErrNotAllowed):
		return fmt.Errorf("%s: %w", c, err)
	default:
		c.Err = err
		r.log.Warn("JetStream refuses a change; it stays as it was", "name", c.Name(), "change", c.String())
		r.report.Refused = append(r.report.Refused, c)
	}
	return nil
}

// send asks the server for a change.
func (r *reconciler) send(ctx context.Context, c Change) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	var asked string
	switch {
	case c.Consumer != "":
		asked = "CONSUMER.CREATE." + c.Stream + "." + c.Consumer
		_, err = r.js.CreateOrUpdateConsumer(ctx, c.Stream, c.consumer)
	case c.Create:
		asked = "STREAM.CREATE." + c.Stream
		_, err = r.js.CreateStream(ctx, c.stream)
	default:
		asked = "STREAM.UPDATE." + c.Stream
		_, err = r.js.UpdateStream(ctx, c.stream)
	}
	// To a request that a user may not make, the server says nothing: it tells
	// the connection.
	if last := r.js.Conn().LastError(); err != nil && errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), asked) {
		return fmt.Errorf("%w: %s", ErrNotAllowed, asked)
	}
	return err
}

// createSmaller creates a stream whose max_bytes the disk cannot reserve with
// the largest half, quarter, … that it can. Such streams drop their oldest
// messages when they are full, so a smaller one works for a shorter time back.
func (r *reconciler) createSmaller(ctx context.Context, c Change, refusal error) error {
	wanted := c.stream.MaxBytes
	for err := refusal; err != nil; {
		c.stream.MaxBytes /= 2
		if c.stream.Discard != jetstream.DiscardOld || c.stream.MaxBytes < minBytes || apiCode(err) != errStorageExceeded {
			return fmt.Errorf("%s: %w", c, err)
		}
		err = r.send(ctx, c)
	}
	c.Fields = []Field{{Name: "max_bytes", Have: fmt.Sprint(c.stream.MaxBytes), Want: fmt.Sprint(wanted)}}
	c.Err = refusal
	r.log.Warn("the store is too small for a stream; created it smaller", "name", c.Name(), "change", c.String())
	r.report.Refused = append(r.report.Refused, c)
	return nil
}

// wait calls f until it neither fails nor finds the server unavailable.
func (r *reconciler) wait(ctx context.Context, f func() error) error {
	logged := false
	for pause := firstWait; ; pause = min(2*pause, lastWait) {
		err := f()
		if err == nil || !unavailable(err) {
			return err
		}
		if !logged {
			r.log.Warn("waiting for JetStream", "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for JetStream: %w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// raced reports that another belay created the same, or removed it, since the
// difference was found.
func raced(err error) bool {
	code := apiCode(err)
	return code == jetstream.JSErrCodeStreamNameInUse || code == jetstream.JSErrCodeStreamNotFound
}

// unavailable reports that the server could not decide, as opposed to it
// having refused.
func unavailable(err error) bool {
	var js jetstream.JetStreamError
	if errors.As(err, &js) && js.APIError() != nil {
		api := js.APIError()
		if api.ErrorCode == errNoPeers { // a node of the cluster has not come up yet
			return true
		}
		return api.Code == codeUnavailable && api.ErrorCode != errInsufficientResources &&
			api.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabledForAccount
	}
	for _, e := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting, context.DeadlineExceeded,
		nats.ErrReconnectBufExceeded, // not connected, and nothing is kept for later
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// apiCode returns JetStream's error code, 0 when it was not the server that
// answered.
func apiCode(err error) jetstream.ErrorCode {
	var js jetstream.JetStreamError
	if errors.As(err, &js) && js.APIError() != nil {
		return js.APIError().ErrorCode
	}
	return 0
}
