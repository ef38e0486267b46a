package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// deliveryLife is how long GitHub keeps attempts to deliver.
const deliveryLife = 72 * time.Hour

// Delivery is one attempt of GitHub to deliver a webhook to the App.
type Delivery struct {
	ID             int64
	GUID           string
	Event, Action  string
	InstallationID int64
	RepositoryID   int64
	StatusCode     int // 0: no answer
	Status         string
	Redelivery     bool
	DeliveredAt    time.Time
	Headers        map[string]string
	Payload        json.RawMessage
}

// AddDelivery records an attempt to deliver; it returns its id.
func (s *Server) AddDelivery(d Delivery) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivery(d).ID
}

func (s *Server) delivery(d Delivery) Delivery {
	s.nextID++
	d.ID = s.nextID
	if d.DeliveredAt.IsZero() {
		d.DeliveredAt = s.o.Now()
	}
	switch {
	case d.Status != "":
	case d.StatusCode >= 200 && d.StatusCode < 300:
		d.Status = "OK"
	default:
		d.Status = fmt.Sprintf("Invalid HTTP Response: %d", d.StatusCode)
	}
	s.deliveries = append(s.deliveries, d)
	return d
}

// Deliveries lists the attempts, oldest first, redeliveries among them.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// listDeliveries lists newest first. The cursor is opaque: where to go on.
func (s *Server) listDeliveries(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	per := number(q, "per_page", 30, 100)
	from := int64(1 << 62)
	if text := q.Get("cursor"); text != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(text, cursorPrefix), 10, 64)
		if err != nil || !strings.HasPrefix(text, cursorPrefix) {
			fail(w, http.StatusUnprocessableEntity, "Invalid cursor", "")
			return
		}
		from = n
	}
	out := []object{}
	for i := range slices.Backward(s.deliveries) {
		d := &s.deliveries[i]
		if d.ID > from || s.forgotten(d) || q.Get("redelivery") != "" && q.Get("redelivery") != strconv.FormatBool(d.Redelivery) {
			continue
		}
		if len(out) == per {
			q.Set("cursor", cursorPrefix+strconv.FormatInt(d.ID, 10))
			w.Header().Set("Link", fmt.Sprintf("<%s%s%s?%s>; rel=\"next\"", s.url, s.prefix, r.URL.Path, q.Encode()))
			break
		}
		out = append(out, d.json(false))
	}
	reply(w, http.StatusOK, out)
}

// cursorPrefix begins a cursor, so that nobody takes it for an id.
const cursorPrefix = "v1_"

func (s *Server) forgotten(d *Delivery) bool { return s.o.Now().Sub(d.DeliveredAt) > deliveryLife }

func (s *Server) findDelivery(id int64) *Delivery {
	for i := range slices.Backward(s.deliveries) {
		if d := &s.deliveries[i]; d.ID == id && !s.forgotten(d) {
			return d
		}
	}
	return nil
}

func (s *Server) getDelivery(w http.ResponseWriter, r *http.Request) {
	if d := s.findDelivery(id(r, "id")); d != nil {
		reply(w, http.StatusOK, d.json(true))
		return
	}
	notFound(w)
}

// redeliver takes the wish. With a webhook it is fulfilled, and the attempt is
// listed once that has ended; without one the attempt is listed at once, as
// pending, and handed to OnRedeliver.
func (s *Server) redeliver(w http.ResponseWriter, r *http.Request) {
	d := s.findDelivery(id(r, "id"))
	if d == nil {
		notFound(w)
		return
	}
	again := *d
	again.Redelivery, again.DeliveredAt, again.StatusCode, again.Status = true, s.o.Now(), 0, "pending"
	s.mutations = append(s.mutations, Mutation{Op: r.Pattern, Path: r.URL.Path, Status: http.StatusAccepted, At: s.o.Now()})
	hook := s.webhook
	if hook == nil {
		again = s.delivery(again)
	}
	s.served.Go(func() {
		if hook != nil {
			again = s.attempt(hook, again)
		}
		if s.o.OnRedeliver != nil {
			s.o.OnRedeliver(again)
		}
	})
	reply(w, http.StatusAccepted, object{})
}

func (d *Delivery) json(full bool) object {
	out := object{
		"id": d.ID, "guid": d.GUID, "event": d.Event, "action": nil, "installation_id": nil, "repository_id": nil,
		"status": d.Status, "status_code": d.StatusCode, "redelivery": d.Redelivery, "delivered_at": date(d.DeliveredAt), "duration": 0.1,
		"throttled_at": nil,
	}
	if d.Action != "" {
		out["action"] = d.Action
	}
	if d.InstallationID != 0 {
		out["installation_id"] = d.InstallationID
	}
	if d.RepositoryID != 0 {
		out["repository_id"] = d.RepositoryID
	}
	if full {
		payload := d.Payload
		if payload == nil {
			payload = json.RawMessage("{}")
		}
		out["request"] = object{"headers": d.Headers, "payload": payload}
		out["response"] = object{"headers": object{}, "payload": nil}
	}
	return out
}
