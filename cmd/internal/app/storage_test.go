package app

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/ingest"
	"github.com/belay-run/belay/kv/natstest"
)

// value is that of one series at the admin listener.
func (r *rig) value(series string) (float64, bool) {
	r.t.Helper()
	a := r.do(http.MethodGet, r.app.AdminURL()+"/metrics", "")
	require.Equal(r.t, http.StatusOK, a.status)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(a.body)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(r.t, err)
	return v, true
}

// J16: how full the store is can be told before it takes nothing more.
func TestJ16SizesOfTheStoreAreMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.natsConf("jetstream { sync_interval: 2m, max_file_store: 64M }\n") }).start()
	var limit float64
	natstest.Eventually(t, "the first sample", func() (ok bool) { limit, ok = r.value("belay_store_limit_bytes"); return ok })
	require.InDelta(t, 64e6, limit, 0)
	size, ok := r.value("belay_disk_size_bytes")
	require.True(t, ok)
	free, ok := r.value("belay_disk_available_bytes")
	require.True(t, ok)
	require.Positive(t, free)
	require.Less(t, free, size)

	r.await(r.accept(1), "done")
	s := &storage{js: r.app.js}
	s.look(t.Context())
	require.Positive(t, s.sample[descUsed])
	require.NotContains(t, s.sample, descLimit, "an account without a limit has none")
	require.NotContains(t, s.sample, descSize, "another's disk cannot be seen")
	require.NoError(t, r.app.ns.Shutdown(t.Context()))
	before := s.sample[descUsed]
	s.look(t.Context())
	require.InDelta(t, before, s.sample[descUsed], 0, "the last sample stays")
}

// J16: what /readyz says is a metric too, and a scrape costs the store nothing.
func TestJ16ReadinessIsAMetric(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	for _, c := range conditions {
		v, ok := r.value(`belay_readiness_failing{condition="` + c + `"}`)
		require.True(t, ok, c)
		require.Zero(t, v, c)
	}
	require.NoError(t, r.app.ns.Shutdown(t.Context()))
	natstest.Eventually(t, "the missing store to show", func() bool {
		v, _ := r.value(`belay_readiness_failing{condition="beat"}`)
		return v == 1
	})
}

// Every condition of /readyz is in the list, even one that nobody thought of.
func TestConditionsAreAClosedList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	app, err := New(r.opts)
	require.NoError(t, err)
	app.reg.MustRegister(newReadiness(func() []ingest.Condition { return []ingest.Condition{{Name: "relay"}, {Name: "brand_new"}} }))
	families, err := app.reg.Gather()
	require.NoError(t, err)
	failing := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "belay_readiness_failing" {
			for _, m := range f.GetMetric() {
				failing[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	require.Len(t, failing, len(conditions))
	for c, v := range failing {
		require.Equal(t, c == "relay" || c == otherCondition, v == 1, c)
	}
}
