package ingest

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/ingest/github"
	"github.com/belay-run/belay/kv/task"
)

// maxSecretLabels bounds the label of signatures whatever the configuration.
const maxSecretLabels = 8

// rejectReasons is the closed list of the label `reason`.
var rejectReasons = []string{
	reasonMethod, reasonSource, reasonTooLarge, reasonBusy, reasonSlow, reasonBroken, reasonNoSig, reasonBadSig,
	reasonNoEvent, reasonNoID, reasonBadID, reasonParse, reasonReused, reasonFull, reasonUnknown, reasonPanic,
}

// metrics are the series of this package. Labels come from closed lists only,
// so their number is bounded whatever is sent (X01).
type metrics struct {
	deliveries *prometheus.CounterVec
	rejections *prometheus.CounterVec
	signatures *prometheus.CounterVec
	duplicates prometheus.Counter
	conflicts  prometheus.Counter
	duration   prometheus.Histogram
	requests   prometheus.Gauge
	panics     prometheus.Counter
	denials    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, b *budget, version string) (*metrics, error) {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_webhook_deliveries_total", Help: "Webhooks stored, by event and disposition; repeats are not counted.",
		}, []string{"event", "disposition"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_webhook_rejections_total", Help: "Webhooks answered with an error, by reason.",
		}, []string{"reason"}),
		signatures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_webhook_signatures_total", Help: "Valid signatures, by the index of the secret in the configuration.",
		}, []string{"secret"}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_webhook_duplicates_total", Help: "Webhooks that the log held already.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_webhook_conflicts_total", Help: "Webhooks whose delivery id came before with another body.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_webhook_duration_seconds", Help: "Time from a webhook's first byte to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 10},
		}),
		requests: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belay_webhook_requests_in_flight", Help: "Webhooks being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_http_panics_total", Help: "Requests that panicked and were answered 500.",
		}),
		denials: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belay_api_denials_total", Help: "API requests answered 401.",
		}),
	}
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belay_webhook_body_bytes_in_flight", Help: "Bytes reserved for bodies of webhooks being answered.",
	}, func() float64 { return float64(b.used.Load()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "belay_build_info", Help: "Always 1; the label is the version that runs.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	for _, c := range []prometheus.Collector{
		m.deliveries, m.rejections, m.signatures, m.duplicates, m.conflicts, m.duration, m.requests, m.panics, m.denials, bytes, info,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of ingest: %w", err)
		}
	}
	for _, reason := range rejectReasons {
		m.rejections.WithLabelValues(reason)
	}
	return m, nil
}

func (m *metrics) reject(reason string) { m.rejections.WithLabelValues(reason).Inc() }

// delivery counts a stored one. Both labels are held to their lists here, as
// the last place that can.
func (m *metrics) delivery(event, disposition string) {
	if disposition != "task" && !slices.Contains(task.Reasons, task.Reason(disposition)) {
		disposition = "other"
	}
	m.deliveries.WithLabelValues(github.EventLabel(event), disposition).Inc()
}

// signed counts which secret a signature was of, by its place, so that an old
// one can be seen to be out of use before it is dropped (G42).
func (m *metrics) signed(secrets []github.Secret, id string) {
	i := slices.IndexFunc(secrets, func(s github.Secret) bool { return s.ID == id })
	label := "other"
	if i >= 0 && i < maxSecretLabels {
		label = strconv.Itoa(i)
	}
	m.signatures.WithLabelValues(label).Inc()
}
