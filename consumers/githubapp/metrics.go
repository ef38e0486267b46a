package githubapp

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outcomes are what a request can come to, as a closed list of labels.
var outcomes = []struct {
	name string
	kind error
}{
	{"rate_limited", ErrRateLimited}, {"unauthorized", ErrUnauthorized}, {"forbidden", ErrForbidden}, {"not_found", ErrNotFound},
	{"refused", ErrValidation}, {"transient", ErrTransient}, {"unknown", ErrUnknown},
}

// effectNames are labels.
var effectNames = map[effect]string{read: "read", edit: "edit", create: "create"}

// metrics are the client's; none has a label of an installation or repository.
type metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, l *limits) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_github_requests_total", Help: "Requests to GitHub by what they change and what came of them.",
		}, []string{"effect", "outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_github_request_duration_seconds", Help: "Duration of requests to GitHub.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}),
	}
	for _, e := range effectNames {
		m.requests.WithLabelValues(e, "ok")
		for _, o := range outcomes {
			m.requests.WithLabelValues(e, o.name)
		}
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.duration, newLimitCollector(l))
	}
	return m
}

func (m *metrics) called(e effect, err error, d time.Duration) {
	outcome := "ok"
	for _, o := range outcomes {
		if errors.Is(err, o.kind) {
			outcome = o.name
			break
		}
	}
	m.requests.WithLabelValues(effectNames[e], outcome).Inc()
	m.duration.Observe(d.Seconds())
}

// limitCollector shows the limits of the App as a whole.
type limitCollector struct {
	l                            *limits
	parked, until, remaining, at *prometheus.Desc
}

func newLimitCollector(l *limits) *limitCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("belay_github_"+name, help, labels, nil)
	}
	return &limitCollector{
		l: l, parked: desc("parked_installations", "Installations that a rate limit of GitHub parks.", "scope"),
		until:     desc("parked_until_timestamp_seconds", "When the last of the parked installations may go on; 0 if none is parked.", "scope"),
		remaining: desc("rate_limit_remaining", "Requests left in the hour of the installation that has fewest left."),
		at:        desc("rate_limit_reset_timestamp_seconds", "When that installation's hour ends."),
	}
}

// Describe lists the metrics.
func (c *limitCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.parked
	ch <- c.until
	ch <- c.remaining
	ch <- c.at
}

// Collect reads them; what is not known is not sent.
func (c *limitCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	now := c.l.now()
	for _, scope := range []Scope{Primary, Secondary} {
		n, last := 0, 0.0
		for _, p := range c.l.parks {
			if p.scope == scope && now.Before(p.until) {
				n, last = n+1, max(last, float64(p.until.Unix()))
			}
		}
		gauge(c.parked, float64(n), string(scope))
		gauge(c.until, last, string(scope))
	}
	var least *rate
	for _, r := range c.l.rates {
		if r.reset.After(now) && (least == nil || r.remaining < least.remaining) {
			least = &r
		}
	}
	if least != nil {
		gauge(c.remaining, float64(least.remaining))
		gauge(c.at, float64(least.reset.Unix()))
	}
}
