package proxy

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/modproxy/modproxy/httpx"
)

// Metrics measures the whole program, and serves the measurements in the Prometheus text format. Package app calls its methods: the
// observers in app/log.go for most events. It is safe for concurrent use.
type Metrics struct {
	http.Handler // answers with all measurements

	add promauto.Factory

	requests *httpx.Metrics
	asked    *prometheus.CounterVec
	fetched  *prometheus.CounterVec
	fetching prometheus.Gauge
	took     prometheus.Histogram
	received prometheus.Counter
	stale    prometheus.Counter
	damaged  prometheus.Counter
	evicted  prometheus.Counter
	freed    prometheus.Counter
	ahead    prometheus.Counter
	used     prometheus.Counter
	ledger   *prometheus.CounterVec
	storage  *prometheus.CounterVec

	refused *prometheus.CounterVec

	mirrored, mirrorProblems *prometheus.GaugeVec
}

// NewMetrics returns Metrics without measurements.
func NewMetrics() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), add: promauto.With(registry)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return m.add.NewCounterVec(prometheus.CounterOpts{Name: "modproxy_" + name, Help: help}, labels)
	}
	m.requests = httpx.NewMetrics(m.add)
	m.asked = counter("upstream_asked_total", "Requests to upstream registries, by question and outcome.", "question", "outcome")
	m.fetched = counter("packages_fetched_total", "Packages downloaded from their sources, by outcome.", "outcome")
	m.stale = counter("stale_served_total", "Answers older than cache.fresh, served because the registry was slow or unavailable: lists of versions, and documents and lists of the catalog. A list made from the stored packages counts, too.").WithLabelValues()
	m.damaged = counter("packages_damaged_total", "Stored packages that were found damaged.").WithLabelValues()
	m.evicted = counter("packages_evicted_total", "Packages removed to make room for others; their records in the ledger stay.").WithLabelValues()
	m.freed = counter("packages_evicted_bytes_total", "Bytes of packages removed to make room for others.").WithLabelValues()
	m.ahead = counter("packages_read_ahead_total", "Prefetched packages: downloaded because another package calls them, before a client requested them.").WithLabelValues()
	m.used = counter("packages_read_ahead_used_total", "Prefetched packages that a client has requested since.").WithLabelValues()
	m.ledger = counter("ledger_events_total", "Versions by what the ledger did: recorded, renewed, drifted (refused, because the content differs from the record) or failed.", "event")
	for _, event := range []string{"recorded", "drifted", "failed"} {
		m.ledger.WithLabelValues(event) // so that an alert sees 0 before 1
	}
	m.storage = counter("storage_failures_total", "Failures of the storage: index_failed (an answer was served, but could not be stored or read) or storage_failed (in background work).", "event")
	for _, event := range []string{"index_failed", "storage_failed"} {
		m.storage.WithLabelValues(event)
	}
	m.refused = counter("policy_refused_total", "Answers that the policy denied, by outcome; with mode audit those that it would deny.", "outcome", "mode")
	gauge := func(name, help string) *prometheus.GaugeVec {
		return m.add.NewGaugeVec(prometheus.GaugeOpts{Name: "modproxy_" + name, Help: help}, []string{"mirror"})
	}
	m.mirrored = gauge("mirrored_timestamp_seconds", "Time of the last end of a mirror of the configuration, in seconds since 1970.")
	m.mirrorProblems = gauge("mirror_problems", "Problems of the last run of a mirror of the configuration.")
	m.received = counter("packages_packed_bytes_total", "Bytes of packages that were downloaded and stored.").WithLabelValues()
	m.took = m.add.NewHistogram(prometheus.HistogramOpts{
		Name: "modproxy_fetch_seconds", Help: "Time to download, pack and store a package.",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
	})
	m.fetching = m.add.NewGauge(prometheus.GaugeOpts{Name: "modproxy_fetches", Help: "Packages that are being downloaded."})
	return m
}

// Asked counts a request to an upstream registry, with its error.
func (m *Metrics) Asked(question string, err error) {
	m.asked.WithLabelValues(question, outcome(err)).Inc()
}

// FetchStarted counts the start of a download.
func (m *Metrics) FetchStarted() { m.fetching.Inc() }

// FetchEnded counts the end of a download, with the bytes of the stored package.
func (m *Metrics) FetchEnded(took time.Duration, packed int64, err error) {
	m.fetching.Dec()
	m.fetched.WithLabelValues(outcome(err)).Inc()
	m.took.Observe(took.Seconds())
	m.received.Add(float64(packed))
}

// StaleServed counts an answer that was served although it was older than cache.fresh.
func (m *Metrics) StaleServed() { m.stale.Inc() }

// Refused counts an answer that the policy denied, or in audit mode would deny.
func (m *Metrics) Refused(outcome string, audit bool) {
	mode := "enforce"
	if audit {
		mode = "audit"
	}
	m.refused.WithLabelValues(outcome, mode).Inc()
}

// Mirrored records the end of a mirror, and the number of its problems.
func (m *Metrics) Mirrored(mirror string, problems int) {
	m.mirrored.WithLabelValues(mirror).SetToCurrentTime()
	m.mirrorProblems.WithLabelValues(mirror).Set(float64(problems))
}

// MeasurePolicy adds a gauge that is 1 while current returns true: the rules in force are those of the configuration's files. It is
// called once.
func (m *Metrics) MeasurePolicy(current func() bool) {
	m.add.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modproxy_policy_current", Help: "1 if the rules in force are those of the configuration, 0 if its files cannot be read.",
	}, func() float64 {
		if current() {
			return 1
		}
		return 0
	})
}

// MeasureRequests adds a gauge of the running requests. It is called once.
func (m *Metrics) MeasureRequests(running func() int) {
	m.add.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modproxy_requests_in_flight", Help: "Requests that are being answered, with the request for the metrics.",
	}, func() float64 { return float64(running()) })
}

// MeasureCertificate adds a gauge for when the TLS certificate in force expires. It is called once.
func (m *Metrics) MeasureCertificate(notAfter func() time.Time) {
	m.add.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modproxy_certificate_expiry_timestamp_seconds", Help: "When the TLS certificate in force expires.",
	}, func() float64 { return float64(notAfter().Unix()) })
}

// Damaged counts a damaged package.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Ledger counts an event of the ledger.
func (m *Metrics) Ledger(event string) { m.ledger.WithLabelValues(event).Inc() }

// StorageFailed counts a failure of the storage by the name of its event in the log.
func (m *Metrics) StorageFailed(event string) { m.storage.WithLabelValues(event).Inc() }

// Evicted counts a package of so many bytes that was removed to make room.
func (m *Metrics) Evicted(bytes int64) {
	m.evicted.Inc()
	m.freed.Add(float64(bytes))
}

// Prefetched counts a package that was downloaded before a client requested it.
func (m *Metrics) Prefetched() { m.ahead.Inc() }

// PrefetchUsed counts a package that Prefetched has counted, and that a client has requested since.
func (m *Metrics) PrefetchUsed() { m.used.Inc() }

// MeasureStorage adds gauges for the bytes of a storage of packages, and for their bound; 0 for no bound. It is called once.
func (m *Metrics) MeasureStorage(storage interface{ Usage() (kept, reserved int64) }, most int64) {
	gauge := func(name, help string, value func(kept, reserved int64) int64) {
		opts := prometheus.GaugeOpts{Name: "modproxy_" + name, Help: help}
		m.add.NewGaugeFunc(opts, func() float64 { return float64(value(storage.Usage())) })
	}
	gauge("packages_kept_bytes", "Bytes of the stored packages.", func(kept, _ int64) int64 { return kept })
	gauge("packages_reserved_bytes", "Bytes reserved for packages that are being written.",
		func(_, reserved int64) int64 { return reserved })
	gauge("packages_max_bytes", "Limit of the stored and reserved bytes (cache.max_size); 0 for no limit.",
		func(int64, int64) int64 { return most })
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
