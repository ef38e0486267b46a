package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/ingest"
)

// conditions are the names of what Ready may find, but for those of the
// moment: "store" costs a write, and shows as "beat" soon after.
var conditions = []string{"view", "watch", "beat", "pull", "admit", "relay", "sweep", "issues", otherCondition}

// otherCondition is the label of a condition that the list lacks.
const otherCondition = "other"

// readiness shows what makes /readyz red. A scrape writes and asks nothing.
type readiness struct {
	desc    *prometheus.Desc
	stalled func() []ingest.Condition
}

func newReadiness(stalled func() []ingest.Condition) *readiness {
	return &readiness{
		desc:    prometheus.NewDesc("belay_readiness_failing", "1 for each condition that makes /readyz red; beat is the store not taking writes.", []string{"condition"}, nil),
		stalled: stalled,
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(ch chan<- *prometheus.Desc) { ch <- r.desc }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(ch chan<- prometheus.Metric) {
	failing := map[string]bool{}
	for _, c := range r.stalled() {
		if !slices.Contains(conditions, c.Name) {
			c.Name = otherCondition
		}
		failing[c.Name] = true
	}
	for _, name := range conditions {
		v := 0.0
		if failing[name] {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, v, name)
	}
}
