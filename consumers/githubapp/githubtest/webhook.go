package githubtest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// answerWithin is how long GitHub waits for an answer to a webhook.
const answerWithin = 10 * time.Second

// webhook is where deliveries go.
type webhook struct {
	url, secret string
	client      *http.Client
}

// SetWebhook says where the App's webhook is and with what it is signed:
// Deliver and redeliveries really go there.
func (s *Server) SetWebhook(url, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook["url"] = url
	s.webhook = &webhook{url: url, secret: secret, client: &http.Client{
		Timeout: answerWithin, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Deliver makes the first attempt to deliver an event, and returns it as it
// is listed. Nobody tries again by himself.
func (s *Server) Deliver(d Delivery) Delivery {
	s.mu.Lock()
	hook := s.webhook
	d.DeliveredAt = s.o.Now()
	s.mu.Unlock()
	return s.attempt(hook, d)
}

// attempt sends a webhook, as GitHub does, and records what came of it.
func (s *Server) attempt(hook *webhook, d Delivery) Delivery {
	d.Headers = map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/test", "X-GitHub-Event": d.Event, "X-GitHub-Delivery": d.GUID,
		"X-GitHub-Hook-ID": "17", "X-GitHub-Hook-Installation-Target-Type": "integration",
		"X-GitHub-Hook-Installation-Target-ID": strconv.FormatInt(s.o.AppID, 10),
		"X-Hub-Signature-256":                  sign(hook.secret, d.Payload),
	}
	d.StatusCode, d.Status = hook.send(d.Headers, d.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivery(d)
}

// send makes the request, and says of it what GitHub shows.
func (h *webhook) send(headers map[string]string, payload []byte) (int, string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.url, bytes.NewReader(payload))
	if err != nil {
		return http.StatusBadGateway, "failed to connect to host"
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := h.client.Do(req)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout, "timed out"
	case err != nil:
		return http.StatusBadGateway, "failed to connect to host"
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, ""
}

func sign(secret string, payload []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(payload)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}
