package consumers

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belay-run/belay/kv/operator"
)

// issuesMetrics are what Issues counts.
type issuesMetrics struct {
	requests *prometheus.GaugeVec
	messages *prometheus.CounterVec
	posts    *prometheus.CounterVec
	searches *prometheus.CounterVec
}

func newIssuesMetrics(reg prometheus.Registerer) *issuesMetrics {
	m := &issuesMetrics{
		requests: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belay_operator_requests", Help: "Operator requests by state, as this process last read them.",
		}, []string{"state"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_operator_messages_total", Help: "Messages of the consumer issues by outcome.",
		}, []string{"outcome"}),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_operator_posts_total", Help: "Requests that create an operator's issue, by outcome.",
		}, []string{"outcome"}),
		searches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belay_operator_searches_total", Help: "Looks for the issue of an attempt whose outcome is unknown, by outcome.",
		}, []string{"outcome"}),
	}
	for _, s := range operator.States[1:] {
		m.requests.WithLabelValues(string(s))
	}
	for v, labels := range map[*prometheus.CounterVec][]string{
		m.messages: {"done", "skipped", "failed", "poison"},
		m.posts:    {"created", "refused", "unknown"},
		m.searches: {"found", "empty", "failed", "given_up"},
	} {
		for _, l := range labels {
			v.WithLabelValues(l)
		}
	}
	reg.MustRegister(m.requests, m.messages, m.posts, m.searches)
	return m
}

// outcomeOfPost is the label of a request that did not answer with an issue.
func outcomeOfPost(reason string) string {
	if reason == reasonUnknown {
		return "unknown"
	}
	return "refused"
}
