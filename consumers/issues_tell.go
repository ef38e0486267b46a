package consumers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belay-run/belay/consumers/relay"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/operator"
	"github.com/belay-run/belay/kv/outbox"
)

// tellPrefix begins the ids of the outbox records that tell operators.
const tellPrefix = "operator-"

// maxLinks bounds how many times a message can be sent again by a person.
const maxLinks = 32

// tell has the operator told of the issue, once: the outbox record's id is
// the request's, so that there is one. When it was delivered, that is
// recorded.
func (i *Issues) tell(t operator.Task) (moved bool, err error) {
	if i.o.Callback == "" {
		return false, nil
	}
	rec, err := i.told(t)
	if err != nil || rec == nil || rec.Status != outbox.Delivered {
		return false, err
	}
	r, err := i.o.Events.MarkDelivered(i.work, t.Owner, t.ID, t.Revision, string(rec.ID))
	switch {
	case err != nil:
		return false, err
	case r.Code == operator.Uncertain:
		return false, fmt.Errorf("record that the operator of request %s was told: %w", t.ID, kv.ErrUnknown)
	}
	return true, nil
}

// told finds the last outbox record that carries the message, or makes the
// first one.
func (i *Issues) told(t operator.Task) (*outbox.Record, error) {
	id := outbox.ID(tellPrefix + string(t.ID))
	rec, err := i.o.Outbox.Find(i.work, id)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		if i.o.Keep > 0 && i.o.Now().Sub(t.UpdatedAt) >= i.o.Keep {
			return nil, nil
		}
		return nil, i.queue(t)
	}
	for n := 0; rec.LinkedTo != "" && n < maxLinks; n++ {
		next, err := i.o.Outbox.Find(i.work, rec.LinkedTo)
		if err != nil || next == nil {
			return rec, err
		}
		rec = next
	}
	return rec, nil
}

func (i *Issues) queue(t operator.Task) error {
	rec, err := TellOf(t, i.o.Callback, i.o.To)
	if err != nil {
		return err
	}
	create := i.o.Outbox.Create
	if t.AttemptID == operator.AttemptRestored {
		create = i.o.Outbox.CreateHeld // a belay whose records are lost may have told
	}
	if _, err = create(i.work, rec); errors.Is(err, kv.ErrExists) {
		return nil
	}
	return err
}

// TellOf is the outbox record that tells of a request's issue: on a channel,
// to what people see of the recipient.
func TellOf(t operator.Task, channel, to string) (outbox.Record, error) {
	id := outbox.ID(tellPrefix + string(t.ID))
	payload, err := relay.OperatorEvent(t, id)
	if err != nil {
		return outbox.Record{}, err
	}
	rec, err := outbox.New(id, channel, to, payload, t.UpdatedAt)
	if err != nil {
		return outbox.Record{}, fmt.Errorf("tell of request %s: %w", t.ID, err)
	}
	rec.Repo = t.Intent.Repo
	return rec, nil
}

// Finished is told of every record that left the outbox; that an operator was
// told is recorded at once. It does not block.
func (i *Issues) Finished(r outbox.Record, v relay.Verdict) {
	id, ok := strings.CutPrefix(string(r.Key()), tellPrefix)
	if !ok || v != relay.Delivered {
		return
	}
	i.spawn(func() {
		ctx, cancel := context.WithTimeout(i.work, keyTimeout)
		defer cancel()
		tenant, ok, err := i.o.Events.Tenant(ctx, operator.RequestID(id))
		if err == nil && ok {
			_ = i.run(requestKey{tenant, operator.RequestID(id)})
		}
	})
}
