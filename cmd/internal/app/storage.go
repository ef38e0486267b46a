package app

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// sampleEvery is how old the sizes of the store may be at a scrape, which
// asks nobody itself: it is quick though NATS is gone.
const sampleEvery = 15 * time.Second

// storage shows how full the store is, and the disk of the embedded one. What
// is not known is not shown.
type storage struct {
	js    jetstream.JetStream
	limit int64  // of the embedded server, 0 if NATS is external
	dir   string // storage.dir, "" if NATS is external

	mu     sync.Mutex
	sample map[*prometheus.Desc]float64
}

var (
	descUsed  = prometheus.NewDesc("belay_store_used_bytes", "Bytes that the streams take.", nil, nil)
	descLimit = prometheus.NewDesc("belay_store_limit_bytes", "Bytes that the streams may take.", nil, nil)
	descSize  = prometheus.NewDesc("belay_disk_size_bytes", "Size of the file system of storage.dir.", nil, nil)
	descAvail = prometheus.NewDesc("belay_disk_available_bytes", "Bytes of that file system that can still be written.", nil, nil)
)

// startStorage begins to look at the sizes of the store.
func (a *App) startStorage(context.Context) error {
	s := &storage{js: a.js}
	if a.ns != nil {
		s.limit, s.dir = a.ns.StoreLimit(), a.o.Config.Storage.Dir
	}
	a.reg.MustRegister(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.run(ctx) }()
	a.cleanups.push("sizes of the store", func(context.Context) error { cancel(); <-done; return nil })
	return nil
}

func (s *storage) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look takes a sample; of a server that does not answer the last one stays.
func (s *storage) look(ctx context.Context) {
	sample := map[*prometheus.Desc]float64{}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if info, err := s.js.AccountInfo(ctx); err == nil {
		sample[descUsed] = float64(info.Store)
		limit := s.limit
		if own := info.Limits.MaxStore; own > 0 && (limit <= 0 || own < limit) {
			limit = own
		}
		if limit > 0 && limit < math.MaxInt64 {
			sample[descLimit] = float64(limit)
		}
	}
	var st unix.Statfs_t
	if s.dir != "" && unix.Statfs(s.dir, &st) == nil {
		sample[descSize] = float64(st.Blocks) * float64(st.Bsize)
		sample[descAvail] = float64(st.Bavail) * float64(st.Bsize)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sample == nil {
		s.sample = sample
		return
	}
	for d, v := range sample {
		s.sample[d] = v
	}
}

// Describe implements prometheus.Collector.
func (s *storage) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUsed, descLimit, descSize, descAvail} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *storage) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, v := range s.sample {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}
