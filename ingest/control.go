package ingest

import (
	"context"
	"net/http"

	"github.com/belay-run/belay/kv"
)

// Switch stops and starts claims, of one installation or (nil) of all.
type Switch interface {
	Pause(ctx context.Context, installation *int64, by string) error
	Resume(ctx context.Context, installation *int64) error
}

type wirePaused struct {
	OK           bool   `json:"ok"`
	Paused       bool   `json:"paused"`
	Installation *int64 `json:"installation,omitempty"`
}

// pause stops claims: deliveries are still accepted, what runs goes on.
func (s *Server) pause(w http.ResponseWriter, r *http.Request, c Caller) error {
	return s.setPaused(w, r, c, AuditPause, true)
}

// resume lets claims go on.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, c Caller) error {
	return s.setPaused(w, r, c, AuditResume, false)
}

func (s *Server) setPaused(w http.ResponseWriter, r *http.Request, c Caller, action string, on bool) error {
	var in struct {
		Installation *int64 `json:"installation"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	// A tenant that sees the whole of its installation pauses that one, and
	// nobody else; whether another exists makes no difference.
	if own := c.Scope.Installation; own != nil && (c.Scope.Repos != nil || in.Installation == nil || *in.Installation != *own) {
		return s.deny(r, c.Name)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	var err error
	if on {
		err = s.o.Switch.Pause(ctx, in.Installation, c.Name)
	} else {
		err = s.o.Switch.Resume(ctx, in.Installation)
	}
	e := kv.AuditEntry{Kind: action, Caller: c.Name, Detail: "all installations"}
	if in.Installation != nil {
		e.InstallationID, e.Detail = *in.Installation, "one installation"
	}
	if err != nil {
		e.Detail += ", refused: " + err.Error()
	}
	s.o.Auditor.Mutation(ctx, e)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, wirePaused{OK: true, Paused: on, Installation: in.Installation})
	return nil
}
