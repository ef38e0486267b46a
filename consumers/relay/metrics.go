package relay

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv/outbox"
)

// metrics are the relay's. Labels come from closed lists only.
type metrics struct {
	claims   *prometheus.CounterVec
	messages *prometheus.CounterVec
	tries    *prometheus.CounterVec
	finished *prometheus.CounterVec
	sweeps   *prometheus.CounterVec
	call     prometheus.Histogram
	wait     prometheus.Histogram
}

// kinds are the values of the label channel.
var kinds = []string{"callback", "github", "other"}

// kind is the label of a channel: what stands before its colon.
func kind(channel string) string {
	before, _, _ := strings.Cut(channel, ":")
	for _, k := range kinds {
		if k == before {
			return k
		}
	}
	return "other"
}

func newMetrics(reg prometheus.Registerer, r *Relay) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "belay_outbox_" + name, Help: help}, labels)
	}
	m := &metrics{
		claims:   vec("claims_total", "Claims of outbox records by outcome.", "outcome"),
		messages: vec("messages_total", "Messages of the consumer relay by what they told.", "outcome"),
		tries:    vec("tries_total", "Tries by channel and verdict.", "channel", "verdict"),
		finished: vec("finished_total", "Records that left the relay by outcome.", "outcome"),
		sweeps:   vec("sweeps_total", "Sweeps by outcome.", "outcome"),
		call: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_outbox_try_seconds", Help: "Duration of one try.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_outbox_delivery_seconds", Help: "Time from a record's creation to its delivery.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 7200},
		}),
	}
	for _, k := range kinds {
		for _, v := range Verdicts {
			m.tries.WithLabelValues(k, string(v))
		}
	}
	for vec, outcomes := range map[*prometheus.CounterVec][]string{
		m.claims:   {"won", "lost", "failed"},
		m.messages: {"pending", "settled", "removed", "newer", "poison"},
		m.finished: {"delivered", "failed", "unknown", "unwritten", "discarded", "postponed"},
		m.sweeps:   {"ok", "failed"},
	} {
		for _, o := range outcomes {
			vec.WithLabelValues(o)
		}
	}
	reg.MustRegister(m.claims, m.messages, m.tries, m.finished, m.sweeps, m.call, m.wait, &gauges{r})
	return m
}

func (m *metrics) tried(channel string, v Verdict, d time.Duration) {
	m.tries.WithLabelValues(kind(channel), string(v)).Inc()
	m.call.Observe(d.Seconds())
}

func (m *metrics) done(rec outbox.Record, v Verdict, now time.Time) {
	outcome := string(rec.Status)
	if rec.Status == outbox.Delivering {
		outcome = "unknown"
	}
	m.finished.WithLabelValues(outcome).Inc()
	if v == Delivered {
		m.wait.Observe(max(0, now.Sub(rec.CreatedAt.Time).Seconds()))
	}
}

// gauges read the state of the outbox from the read model at each scrape.
type gauges struct{ r *Relay }

var (
	descRecords  = prometheus.NewDesc("belay_outbox_records", "Outbox records by status.", []string{"status"}, nil)
	descUnknown  = prometheus.NewDesc("belay_outbox_unknown", "Outbox records whose outcome is unknown.", nil, nil)
	descPending  = prometheus.NewDesc("belay_outbox_oldest_pending_seconds", "Age of the oldest pending record.", nil, nil)
	descLapsed   = prometheus.NewDesc("belay_outbox_oldest_unknown_seconds", "Seconds for which the oldest unknown outcome has been unknown.", nil, nil)
	descFlying   = prometheus.NewDesc("belay_outbox_in_flight", "Records that this process sends now.", nil, nil)
	descDisabled = prometheus.NewDesc("belay_outbox_disabled_channels", "Channels that this process has stopped to use after a 410.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRecords, descUnknown, descPending, descLapsed, descFlying, descDisabled} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	c := g.r.o.View.OutboxCounts()
	for _, s := range outbox.Statuses {
		gauge(descRecords, float64(c.ByStatus[s]), string(s))
	}
	gauge(descUnknown, float64(c.Unknown))
	gauge(descPending, c.OldestPending.Seconds())
	gauge(descLapsed, c.OldestUnknown.Seconds())
	gauge(descFlying, float64(g.r.seats.inFlight()))
	gauge(descDisabled, float64(len(g.r.Disabled())))
}
