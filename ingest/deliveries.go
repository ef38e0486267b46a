package ingest

import (
	"context"
	"net/http"

	"github.com/belay-run/belay/kv"
)

type wireDeliveries struct {
	OK         bool           `json:"ok"`
	Deliveries []wireDelivery `json:"deliveries"`
	NextCursor string         `json:"nextCursor,omitempty"`
}

type wireOneDelivery struct {
	OK       bool         `json:"ok"`
	Delivery wireDelivery `json:"delivery"`
}

func (s *Server) listDeliveries(w http.ResponseWriter, r *http.Request, c Caller) error {
	q, err := parseList(r, c.Scope, nil)
	if err != nil {
		return err
	}
	out := wireDeliveries{OK: true, Deliveries: []wireDelivery{}}
	if inst, ok := q.within(c.Scope); ok {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		page, err := s.o.Deliveries.Page(ctx, kv.DeliveryQuery{
			Installation: inst, Repos: c.Scope.Repos, Repo: q.repo, Limit: q.limit, Cursor: q.cursor,
		})
		if err != nil {
			return err
		}
		for i := range page.Deliveries {
			out.Deliveries = append(out.Deliveries, deliveryOf(&page.Deliveries[i]))
		}
		out.NextCursor = q.next(page.Next)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (s *Server) showDelivery(w http.ResponseWriter, r *http.Request, c Caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	l, err := s.findDelivery(ctx, r, c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, wireOneDelivery{OK: true, Delivery: deliveryOf(&l)})
	return nil
}
