package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv/task"
	"github.com/belay-run/belay/kv/view"
)

// viewCollector exposes what the read model counts; a scrape scans nothing.
type viewCollector struct {
	view    *view.View
	tasks   *prometheus.Desc
	oldest  *prometheus.Desc
	poison  *prometheus.Desc
	synced  *prometheus.Desc
	workers *prometheus.Desc
	pauses  *prometheus.Desc
	tombs   *prometheus.Desc
	capped  *prometheus.Desc
}

func newViewCollector(v *view.View) *viewCollector {
	return &viewCollector{
		view:    v,
		tasks:   prometheus.NewDesc("belay_tasks", "Tasks by state.", []string{"state"}, nil),
		oldest:  prometheus.NewDesc("belay_oldest_queued_seconds", "Seconds that the oldest due task has waited here.", nil, nil),
		poison:  prometheus.NewDesc("belay_unreadable_records", "Records that this belay cannot read and leaves alone.", nil, nil),
		synced:  prometheus.NewDesc("belay_view_synced", "1 once the read model has caught up.", nil, nil),
		workers: prometheus.NewDesc("belay_workers", "Worker processes that beat.", nil, nil),
		pauses:  prometheus.NewDesc("belay_pauses", "Pause switches that are on.", nil, nil),
		capped:  prometheus.NewDesc("belay_installations_at_cap", "Installations that may start no further task until one ends.", nil, nil),
		tombs:   prometheus.NewDesc("belay_tombstones", "Tombstones of tasks whose retention is over.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *viewCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.tasks, c.oldest, c.poison, c.synced, c.workers, c.pauses, c.tombs, c.capped} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *viewCollector) Collect(ch chan<- prometheus.Metric) {
	counts := c.view.Counts()
	for _, s := range task.States {
		ch <- prometheus.MustNewConstMetric(c.tasks, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
	synced := 0.0
	if c.view.Synced() {
		synced = 1
	}
	ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, c.view.OldestQueued().Seconds())
	ch <- prometheus.MustNewConstMetric(c.poison, prometheus.GaugeValue, float64(c.view.Poisoned()))
	ch <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, synced)
	ch <- prometheus.MustNewConstMetric(c.workers, prometheus.GaugeValue, float64(c.view.LiveWorkers()))
	ch <- prometheus.MustNewConstMetric(c.pauses, prometheus.GaugeValue, float64(c.view.Pauses()))
	ch <- prometheus.MustNewConstMetric(c.capped, prometheus.GaugeValue, float64(c.view.AtLimit()))
	ch <- prometheus.MustNewConstMetric(c.tombs, prometheus.GaugeValue, float64(c.view.Tombs()))
}
