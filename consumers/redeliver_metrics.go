package consumers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv"
)

// Outcomes of passes, the closed list of a metric's label.
const (
	pollOK      = "ok"
	pollLimited = "limited"
	pollFailed  = "failed"
)

// redeliverMetrics are those of one source. What is seen by the process that
// leads is shown by that one alone: another's would be stale.
type redeliverMetrics struct {
	polls, found, asked, gaveUp *prometheus.CounterVec
	gaps                        prometheus.Counter
	now                         func() time.Time

	last, oldest, waiting, lost *prometheus.Desc

	mu   sync.Mutex
	seen seenState
}

// seenState is what the leading process saw in its last pass.
type seenState struct {
	at      time.Time // zero: this process does not lead, or has seen nothing yet
	counted bool
	oldest  time.Time
	failed  int
	missing int
	givenUp int
}

func newRedeliverMetrics(reg prometheus.Registerer, now func() time.Time) *redeliverMetrics {
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "belay_redelivery_" + name, Help: help}, []string{label})
		for _, s := range values {
			v.WithLabelValues(s)
		}
		return v
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("belay_redelivery_"+name, help, labels, nil)
	}
	m := &redeliverMetrics{
		now:   now,
		polls: vec("polls_total", "Passes over GitHub's log of deliveries by outcome.", "outcome", pollOK, pollLimited, pollFailed),
		found: vec("found_total", "Deliveries that did not arrive: GitHub got no 2xx (failed), or one that was not belay's (missing).", "reason",
			string(verdictFailed), string(verdictMissing)),
		asked: vec("requests_total", "Requests to GitHub to deliver again, by result.", "result",
			askAccepted, askGone, askLimited, askRefused, askInvalid, askUnknown),
		gaveUp: vec("given_up_total", "Deliveries that are not asked for any more, by reason.", "reason", gaveUpTries, gaveUpExpired, gaveUpGone),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_redelivery_gaps_total", Help: "Times that nobody looked for longer than GitHub keeps deliveries.",
		}),
		last:    desc("last_poll_timestamp_seconds", "When the last whole pass began; shown by the process that leads."),
		oldest:  desc("gap_seconds", "Age of the oldest delivery that did not arrive and is still asked for; 0 for none."),
		waiting: desc("pending", "Deliveries that did not arrive and are still asked for, by reason.", "reason"),
		lost:    desc("lost", "Deliveries of the last days that were given up and have not arrived since."),
	}
	reg.MustRegister(m.polls, m.found, m.asked, m.gaveUp, m.gaps, m)
	return m
}

// polled notes a pass that read all there was.
func (m *redeliverMetrics) polled(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.at = at
}

// open notes the records that are there.
func (m *redeliverMetrics) open(all []kv.Redelivery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = seenState{at: m.seen.at, counted: true}
	for _, r := range all {
		switch {
		case r.GaveUp != "":
			m.seen.givenUp++
			continue
		case r.Missing:
			m.seen.missing++
		default:
			m.seen.failed++
		}
		if m.seen.oldest.IsZero() || r.FirstAt.Before(m.seen.oldest) {
			m.seen.oldest = r.FirstAt.Time
		}
	}
}

// rest forgets what was seen: another process leads now.
func (m *redeliverMetrics) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = seenState{}
}

// Describe implements prometheus.Collector.
func (m *redeliverMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.last
	ch <- m.oldest
	ch <- m.waiting
	ch <- m.lost
}

// Collect implements prometheus.Collector.
func (m *redeliverMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	s := m.seen
	m.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if !s.at.IsZero() {
		gauge(m.last, float64(s.at.UnixMilli())/1000)
	}
	if s.counted {
		age := 0.0
		if !s.oldest.IsZero() {
			age = max(0, m.now().Sub(s.oldest).Seconds())
		}
		gauge(m.oldest, age)
		gauge(m.waiting, float64(s.failed), string(verdictFailed))
		gauge(m.waiting, float64(s.missing), string(verdictMissing))
		gauge(m.lost, float64(s.givenUp))
	}
}
