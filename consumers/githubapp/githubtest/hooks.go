package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

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
	return s.delivery(d)
}

func (s *Server) delivery(d Delivery) int64 {
	s.nextID++
	d.ID = s.nextID
	if d.DeliveredAt.IsZero() {
		d.DeliveredAt = s.o.Now()
	}
	if d.Status == "" {
		d.Status = http.StatusText(d.StatusCode)
	}
	s.deliveries = append(s.deliveries, d)
	return d.ID
}

// Deliveries lists the attempts, oldest first, redeliveries among them.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// listDeliveries lists newest first. The cursor is opaque: the id to go on at.
func (s *Server) listDeliveries(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	per := number(q, "per_page", 30, 100)
	cursor := number(q, "cursor", 1<<62, 1<<62)
	out := []object{}
	for _, d := range slices.Backward(s.deliveries) {
		if d.ID > int64(cursor) {
			continue
		}
		if len(out) == per {
			q.Set("cursor", strconv.FormatInt(d.ID, 10))
			w.Header().Set("Link", fmt.Sprintf("<%s%s%s?%s>; rel=\"next\"", s.url, s.prefix, r.URL.Path, q.Encode()))
			break
		}
		out = append(out, d.json(false))
	}
	reply(w, http.StatusOK, out)
}

func (s *Server) findDelivery(id int64) *Delivery {
	for i := range s.deliveries {
		if s.deliveries[i].ID == id {
			return &s.deliveries[i]
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

// redeliver takes the wish, records a new attempt of the same GUID and hands
// it to OnRedeliver, whose business it is to deliver.
func (s *Server) redeliver(w http.ResponseWriter, r *http.Request) {
	d := s.findDelivery(id(r, "id"))
	if d == nil {
		notFound(w)
		return
	}
	again := *d
	again.Redelivery, again.DeliveredAt, again.StatusCode, again.Status = true, time.Time{}, 0, "pending"
	again.ID = s.delivery(again)
	s.mutations = append(s.mutations, Mutation{Op: r.Pattern, Path: r.URL.Path, Status: http.StatusAccepted, At: s.o.Now()})
	if f := s.o.OnRedeliver; f != nil {
		s.served.Go(func() { f(again) })
	}
	reply(w, http.StatusAccepted, object{})
}

func (d *Delivery) json(full bool) object {
	out := object{
		"id": d.ID, "guid": d.GUID, "event": d.Event, "action": nil, "installation_id": nil, "repository_id": nil,
		"status": d.Status, "status_code": d.StatusCode, "redelivery": d.Redelivery, "delivered_at": date(d.DeliveredAt), "duration": 0.1,
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
