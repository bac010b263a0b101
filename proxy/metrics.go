package proxy

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics measures the proxy, and serves what it measured in the Prometheus text format. It is safe for concurrent use.
type Metrics struct {
	http.Handler // serves

	add promauto.Factory

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
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

	refused *prometheus.CounterVec

	mirrored, mirrorProblems *prometheus.GaugeVec

	answers sync.Map // by answerKey, *answerCounters: to find them among the above takes longer than to count
}

// answerKey is what answers that are counted together have in common.
type answerKey struct {
	kind   string
	status int
}

type answerCounters struct {
	requests, bytes prometheus.Counter
	seconds         prometheus.Observer
}

// NewMetrics makes a Metrics that has measured nothing.
func NewMetrics() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), add: promauto.With(registry)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return m.add.NewCounterVec(prometheus.CounterOpts{Name: "modproxy_" + name, Help: help}, labels)
	}
	m.requests = counter("requests_total", "Requests answered, by what was asked and the status.", "kind", "status")
	m.bytes = counter("sent_bytes_total", "Bytes of answers, by what was asked.", "kind")
	m.asked = counter("upstream_asked_total", "Questions to upstream registries, by question and outcome.", "question", "outcome")
	m.fetched = counter("packages_fetched_total", "Packages fetched from their sources, by outcome.", "outcome")
	m.stale = counter("stale_served_total", "Answers served although they were older than cache.fresh.").WithLabelValues()
	m.damaged = counter("packages_damaged_total", "Kept packages that were found damaged, and fetched again.").WithLabelValues()
	m.evicted = counter("packages_evicted_total", "Packages removed to make room for others; their records stay.").WithLabelValues()
	m.freed = counter("packages_evicted_bytes_total", "Bytes of packages removed to make room for others.").WithLabelValues()
	m.ahead = counter("packages_read_ahead_total", "Packages fetched because another package calls them, before a client asked.").WithLabelValues()
	m.used = counter("packages_read_ahead_used_total", "Of the packages read ahead since the start, those that a client has asked for.").WithLabelValues()
	m.ledger = counter("ledger_events_total", "Versions that were recorded (recorded), that were offered with other content than is recorded, and refused (drifted), or that the ledger did not answer for (failed).", "event")
	for _, event := range []string{"recorded", "drifted", "failed"} {
		m.ledger.WithLabelValues(event) // so that an alert sees the zero before the one
	}
	m.refused = counter("policy_refused_total", "Answers that the policy refused, by outcome; in audit mode those that it would refuse.", "outcome", "mode")
	gauge := func(name, help string) *prometheus.GaugeVec {
		return m.add.NewGaugeVec(prometheus.GaugeOpts{Name: "modproxy_" + name, Help: help}, []string{"mirror"})
	}
	m.mirrored = gauge("mirrored_timestamp_seconds", "When a mirror of the configuration has last ended, in seconds since 1970.")
	m.mirrorProblems = gauge("mirror_problems", "What was not kept when a mirror of the configuration has last ended, or not known.")
	m.received = counter("packages_packed_bytes_total", "Bytes of packages that were fetched and kept.").WithLabelValues()
	m.seconds = m.add.NewHistogramVec(prometheus.HistogramOpts{
		Name: "modproxy_request_seconds", Help: "Time to answer a request, by what was asked.",
		Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 4, 10, 60},
	}, []string{"kind"})
	m.took = m.add.NewHistogram(prometheus.HistogramOpts{
		Name: "modproxy_fetch_seconds", Help: "Time to fetch, pack and keep a package.",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
	})
	m.fetching = m.add.NewGauge(prometheus.GaugeOpts{Name: "modproxy_fetches", Help: "Packages that are being fetched now."})
	return m
}

func (m *Metrics) request(e *Event, took time.Duration) {
	key := answerKey{e.Kind, e.Status}
	found, ok := m.answers.Load(key)
	if !ok {
		kind := cmp.Or(e.Kind, "other")
		found, _ = m.answers.LoadOrStore(key, &answerCounters{
			requests: m.requests.WithLabelValues(kind, strconv.Itoa(e.Status)),
			bytes:    m.bytes.WithLabelValues(kind),
			seconds:  m.seconds.WithLabelValues(kind),
		})
	}
	c := found.(*answerCounters)
	c.requests.Inc()
	c.seconds.Observe(took.Seconds())
	c.bytes.Add(float64(e.Bytes))
}

// Asked counts a question to an upstream registry.
func (m *Metrics) Asked(question string, err error) {
	m.asked.WithLabelValues(question, outcome(err)).Inc()
}

// FetchStarted counts a package that is being fetched.
func (m *Metrics) FetchStarted() { m.fetching.Inc() }

// FetchEnded counts a package that was fetched, or was not.
func (m *Metrics) FetchEnded(took time.Duration, packed int64, err error) {
	m.fetching.Dec()
	m.fetched.WithLabelValues(outcome(err)).Inc()
	m.took.Observe(took.Seconds())
	m.received.Add(float64(packed))
}

// StaleServed counts an answer that was older than it should be.
func (m *Metrics) StaleServed() { m.stale.Inc() }

// Refused counts an answer that the policy refused, or would refuse if it were not in audit mode.
func (m *Metrics) Refused(outcome string, audit bool) {
	mode := "enforce"
	if audit {
		mode = "audit"
	}
	m.refused.WithLabelValues(outcome, mode).Inc()
}

// Mirrored tells that a mirror has ended, with so many problems.
func (m *Metrics) Mirrored(mirror string, problems int) {
	m.mirrored.WithLabelValues(mirror).SetToCurrentTime()
	m.mirrorProblems.WithLabelValues(mirror).Set(float64(problems))
}

// MeasurePolicy adds whether the rules in force are those of the files.
func (m *Metrics) MeasurePolicy(current func() bool) {
	m.add.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modproxy_policy_current", Help: "1 if the rules in force are those of the configuration, 0 if that cannot be read.",
	}, func() float64 {
		if current() {
			return 1
		}
		return 0
	})
}

// MeasureCertificate adds when the TLS certificate in force expires.
func (m *Metrics) MeasureCertificate(notAfter func() time.Time) {
	m.add.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modproxy_certificate_expiry_timestamp_seconds", Help: "When the TLS certificate in force expires.",
	}, func() float64 { return float64(notAfter().Unix()) })
}

// Damaged counts a kept package that was found damaged.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Ledger counts an event of the ledger.
func (m *Metrics) Ledger(event string) { m.ledger.WithLabelValues(event).Inc() }

// Evicted counts a package that was removed.
func (m *Metrics) Evicted(bytes int64) {
	m.evicted.Inc()
	m.freed.Add(float64(bytes))
}

// Prefetched counts a package that was downloaded before a client requested it.
func (m *Metrics) Prefetched() { m.ahead.Inc() }

// PrefetchUsed counts such a package that a client has requested.
func (m *Metrics) PrefetchUsed() { m.used.Inc() }

// MeasureStorage adds the bytes of a storage of packages, and how many it may have; 0 for no bound. It is called once.
func (m *Metrics) MeasureStorage(storage interface{ Usage() (kept, reserved int64) }, most int64) {
	gauge := func(name, help string, value func(kept, reserved int64) int64) {
		opts := prometheus.GaugeOpts{Name: "modproxy_" + name, Help: help}
		m.add.NewGaugeFunc(opts, func() float64 { return float64(value(storage.Usage())) })
	}
	gauge("packages_kept_bytes", "Bytes of the packages that are kept.", func(kept, _ int64) int64 { return kept })
	gauge("packages_reserved_bytes", "Bytes reserved for packages that are being written.",
		func(_, reserved int64) int64 { return reserved })
	gauge("packages_max_bytes", "Bytes that kept and reserved packages may have together (cache.max_size); 0 for no bound.",
		func(int64, int64) int64 { return most })
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
