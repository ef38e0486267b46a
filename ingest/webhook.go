package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv"
	"github.com/belay-run/belay/kv/task"
)

// GitHub's headers in Go's canonical spelling: any other costs an allocation.
const (
	headerSignature  = "X-Hub-Signature-256"
	headerEvent      = "X-Github-Event"
	headerDelivery   = "X-Github-Delivery"
	headerHookID     = "X-Github-Hook-Id"
	headerTargetType = "X-Github-Hook-Installation-Target-Type"
	headerTargetID   = "X-Github-Hook-Installation-Target-Id"
)

// wireAccepted is the 200 of a webhook; one of Task, Ignored and Pong is set.
type wireAccepted struct {
	OK        bool        `json:"ok"`
	Task      task.ID     `json:"task,omitempty"`
	Ignored   task.Reason `json:"ignored,omitempty"`
	Pong      bool        `json:"pong,omitempty"`
	Duplicate bool        `json:"duplicate,omitempty"`
}

// webhook answers POST /webhook.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request) {
	s.take(w, r, Source{Config: s.o.Config(), Secrets: s.o.Secrets()})
}

// sourceWebhook answers POST /webhook/{source}. Of a source that is not
// configured nothing is read.
func (s *Server) sourceWebhook(w http.ResponseWriter, r *http.Request) {
	src, ok := s.o.Sources(chi.URLParam(r, "source"))
	if !ok {
		s.metrics.reject(reasonSource)
		s.fail(w, errUnknownSource)
		return
	}
	s.take(w, r, src)
}

// take answers a webhook of a source: see the package comment for its steps.
func (s *Server) take(w http.ResponseWriter, r *http.Request, src Source) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.metrics.reject(reasonMethod)
		s.fail(w, errMethod)
		return
	}
	now := s.o.Now()
	started := s.started(r, now)
	s.metrics.requests.Inc()
	defer s.metrics.requests.Dec()
	acc, stored, err := s.intake(w, r, src, now, started)
	s.traced(r, &acc, started, stored, err)
	s.metrics.duration.Observe(s.o.Now().Sub(started).Seconds())
	if err != nil {
		s.rejected(w, r, &acc.Delivery, err)
		return
	}
	s.accepted(w, r, &acc)
}

// intake takes a webhook through every step. On an error the delivery is what
// was known of it by then; on kv.ErrReused it is the one that came. stored is
// when the log was asked, zero if it was not.
func (s *Server) intake(w http.ResponseWriter, r *http.Request, src Source, now, started time.Time) (acc kv.Accepted, stored time.Time, err error) {
	left := s.o.IntakeDeadline - now.Sub(started)
	d, err := s.receive(w, r, src, now, left)
	if err != nil {
		return kv.Accepted{Delivery: d}, stored, err
	}
	stored = s.o.Now()
	left -= stored.Sub(now)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), left)
	defer cancel()
	if err = s.owned(ctx, &d); err != nil {
		return kv.Accepted{Delivery: d}, stored, err
	}
	acc, err = s.keep(ctx, d, nil)
	if err == nil && acc.Delivery.Routing == "" {
		err = errNoRouting
	}
	if err != nil {
		return kv.Accepted{Delivery: d}, stored, err
	}
	return acc, stored, nil
}

// receive reads the body within left and makes the delivery of it. The body
// is given back before the store is asked: a stalled store holds no bodies.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, src Source, now time.Time, left time.Duration) (task.Delivery, error) {
	// net/http lifts the deadline by itself as soon as the body is read.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(left))
	b, err := readBody(r, s.budget, s.o.MaxBody)
	defer b.release()
	if err != nil {
		return task.Delivery{}, err
	}
	return s.routed(src, r.Header, b.buf, now)
}

// routed verifies a body and makes the delivery of it: steps 2 to 5.
func (s *Server) routed(src Source, h http.Header, raw []byte, now time.Time) (task.Delivery, error) {
	secret, err := github.Verify(src.Secrets, raw, h.Get(headerSignature))
	if err != nil {
		return task.Delivery{}, err
	}
	s.metrics.signed(src.Secrets, secret)
	d := task.Delivery{Event: strings.TrimSpace(h.Get(headerEvent))}
	if d.Event == "" {
		return d, errMissingEvent
	}
	if d.ID, err = github.ParseDeliveryID(h.Get(headerDelivery)); err != nil {
		return d, err
	}
	payload, err := github.Payload(h.Get("Content-Type"), raw)
	if err != nil {
		return d, err
	}
	ev, err := github.Decode(d.Event, payload)
	if err != nil {
		return d, err
	}
	out := github.Route(src.Config, headers(h, &d), ev, now)
	sum := sha256.Sum256(raw)
	out.PayloadHash = hex.EncodeToString(sum[:])
	return out, nil
}

// owned ignores a delivery of an installation that belongs to another source.
// It is asked of all that passed the reasons before this one, so that the
// first delivery of an installation decides whatever it is about.
func (s *Server) owned(ctx context.Context, d *task.Delivery) error {
	if reason, _ := d.Routing.Reason(); d.InstallationID == 0 || reason == task.Ping || reason == task.ForeignApp {
		return nil
	}
	owner, err := s.o.Owners.Owner(ctx, d.InstallationID, d.Source)
	if err == nil && owner != d.Source {
		d.Task, d.Routing = nil, task.Ignored(task.ForeignInstallation)
	}
	return err
}

// headers are those that routing reads.
func headers(h http.Header, d *task.Delivery) github.Headers {
	return github.Headers{
		Event: d.Event, Delivery: string(d.ID), HookID: h.Get(headerHookID),
		TargetType: h.Get(headerTargetType), TargetID: h.Get(headerTargetID),
	}
}

// accepted answers 200 with the disposition that the log holds.
func (s *Server) accepted(w http.ResponseWriter, r *http.Request, acc *kv.Accepted) {
	d := &acc.Delivery
	out := wireAccepted{OK: true, Duplicate: acc.Duplicate}
	label := "task"
	if id, ok := d.Routing.Task(); ok {
		out.Task = id
	} else {
		reason, _ := d.Routing.Reason()
		label = string(reason)
		if reason == task.Ping {
			out.Pong = true
		} else {
			out.Ignored = reason
		}
	}
	if acc.Duplicate {
		s.metrics.duplicates.Inc()
	} else {
		s.metrics.delivery(d.Event, label)
	}
	if out.Ignored == task.NoInstallation {
		s.warn("no_installation", "delivery names no installation although an app is configured: is a repository hook set up beside the app?",
			append(s.deliveryAttrs(d), slog.String("repo", d.Repo))...)
	}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "webhook accepted",
			append(s.deliveryAttrs(d), slog.String("routing", string(d.Routing)), slog.Bool("duplicate", acc.Duplicate))...)
	}
	writeJSON(w, http.StatusOK, out)
}

// rejected counts, logs and answers a webhook that was not accepted.
func (s *Server) rejected(w http.ResponseWriter, r *http.Request, d *task.Delivery, err error) {
	if errors.Is(err, errTooLarge) || errors.Is(err, errBusy) {
		s.drain(w, r)
	}
	a := s.fail(w, err)
	s.metrics.reject(a.reason)
	attrs := append(s.deliveryAttrs(d), slog.Int("status", a.status), slog.String("err", err.Error()))
	switch {
	case errors.Is(err, kv.ErrReused):
		s.metrics.conflicts.Inc()
		s.o.Auditor.Mutation(context.WithoutCancel(r.Context()), kv.AuditEntry{
			Kind: AuditConflict, Caller: "github", InstallationID: d.InstallationID, Repo: d.Repo, DeliveryID: d.ID,
			Detail: "delivery id reused with another body " + d.PayloadHash,
		})
		s.warn(a.reason, "webhook conflicts with an accepted one", attrs...)
	case a.status >= http.StatusInternalServerError:
		s.logLimited(slog.LevelError, a.reason, "webhook not stored", attrs...)
	default:
		s.warn(a.reason, "webhook refused", append(attrs, slog.String("content_length", strconv.FormatInt(r.ContentLength, 10)))...)
	}
}

func (s *Server) deliveryAttrs(d *task.Delivery) []slog.Attr {
	attrs := make([]slog.Attr, 0, 6)
	attrs = append(attrs, slog.String("github_delivery_id", string(d.ID)), slog.String("github_event", d.Event))
	if id, ok := d.Routing.Task(); ok && id != "" {
		attrs = append(attrs, slog.String("task_id", string(id)))
	}
	return attrs
}
