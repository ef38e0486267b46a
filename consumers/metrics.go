package consumers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/consumers/executor"
	"github.com/belay-run/belay/kv/task"
)

// metrics are the worker's. Labels come from closed lists only.
type metrics struct {
	claims      prometheus.Counter
	lost        prometheus.Counter
	stale       prometheus.Counter
	poison      prometheus.Counter
	interrupted prometheus.Counter
	reopened    prometheus.Counter
	unseen      prometheus.Counter
	capped      prometheus.Counter
	healed      prometheus.Counter
	slots       *prometheus.CounterVec
	pulls       *prometheus.CounterVec
	beats       *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	wait        prometheus.Histogram
	duration    prometheus.Histogram
	discarded   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, w *Worker) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "belay_worker_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "belay_worker_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		claims:      counter("claims_total", "Claims that this process won."),
		lost:        counter("claims_lost_total", "Claims that another write came before."),
		stale:       counter("tokens_stale_total", "Tokens acknowledged because their task was not queued any more."),
		poison:      counter("tokens_poison_total", "Messages that cannot be decoded."),
		interrupted: counter("attempts_interrupted_total", "Attempts of dead processes that this one closed."),
		reopened:    counter("watch_reopened_total", "Times the watch was opened again because it lagged behind the own beat."),
		unseen:      counter("tokens_unseen_total", "Tokens whose queued task the view did not show in time."),
		capped:      counter("claims_capped_total", "Claims refused because their installation was at its cap."),
		healed:      counter("slots_healed_total", "Places under caps that were left behind and given back."),
		slots:       vec("slot_writes_total", "Writes of places under caps by outcome.", "outcome"),
		discarded:   counter("results_discarded_total", "Results of attempts that no longer held their task."),
		pulls:       vec("pulls_total", "Pulls from the consumer tasks by answer.", "answer"),
		beats:       vec("beats_total", "Beats by outcome.", "outcome"),
		attempts:    vec("attempts_total", "Ended attempts by outcome.", "outcome"),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_task_wait_seconds", Help: "Time from a task's admission to its first start.",
			Buckets: []float64{.001, .0025, .005, .01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 7200},
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belay_attempt_duration_seconds", Help: "Duration of attempts.",
			Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 180, 600, 1800, 3600, 7200},
		}),
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "belay_worker_" + name, Help: help}, f)
	}
	reg.MustRegister(m.claims, m.lost, m.stale, m.poison, m.interrupted, m.reopened, m.unseen, m.capped, m.healed, m.slots, m.discarded, m.pulls, m.beats,
		m.attempts, m.wait, m.duration,
		gauge("running", "Attempts that run in this process.", func() float64 { return float64(w.Progress().Running) }),
		gauge("slots", "Attempts that may run in this process at once.", func() float64 { return float64(w.o.Concurrency) }),
		gauge("last_pull_age_seconds", "Seconds since a pull was answered.", func() float64 { return since(w.o.Now(), w.Progress().LastPull) }),
		gauge("last_beat_age_seconds", "Seconds since a beat was acknowledged.", func() float64 { return since(w.o.Now(), w.Progress().LastBeat) }),
	)
	for _, o := range []string{"written", "conflict", "failed"} {
		m.slots.WithLabelValues(o)
	}
	for _, o := range []task.Outcome{
		task.OutcomeCompleted, task.OutcomeFailed, task.OutcomeInterrupted, task.OutcomeReleased, task.OutcomeParked,
		task.OutcomeCancelled, task.OutcomeSuperseded, task.OutcomeTimeout, task.OutcomeInfra,
	} {
		m.attempts.WithLabelValues(string(o))
	}
	return m
}

func (m *metrics) pulled(got bool, err error) {
	switch {
	case err != nil:
		m.pulls.WithLabelValues("failed").Inc()
	case got:
		m.pulls.WithLabelValues("token").Inc()
	default:
		m.pulls.WithLabelValues("empty").Inc()
	}
}

func (m *metrics) waited(r task.Record, now time.Time) {
	if r.Attempts == 1 {
		m.wait.Observe(max(0, now.Sub(r.CreatedAt.Time).Seconds()))
	}
}

func (m *metrics) ended(rep executor.Report, end task.Record, err error, d time.Duration) {
	m.duration.Observe(d.Seconds())
	if err != nil {
		m.discarded.Inc()
		return
	}
	outcome := rep.Outcome
	if n := len(end.AttemptLog); n > 0 && end.AttemptLog[n-1].Outcome != "" {
		outcome = end.AttemptLog[n-1].Outcome
	}
	m.attempts.WithLabelValues(string(outcome)).Inc()
}
