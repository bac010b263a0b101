package httpx

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics counts requests, their time and their bytes. It is safe for concurrent use. A nil Metrics counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec

	answers sync.Map // *answerCounters by answerKey: a look-up by labels takes longer than counting
}

// answerKey has what answers in the same counters have in common.
type answerKey struct {
	kind   string
	status int
}

type answerCounters struct {
	requests, bytes prometheus.Counter
	seconds         prometheus.Observer
}

// NewMetrics adds the counters of requests to those of add.
func NewMetrics(add promauto.Factory) *Metrics {
	return &Metrics{
		requests: add.NewCounterVec(prometheus.CounterOpts{
			Name: "modproxy_requests_total", Help: "Requests answered, by kind and status.",
		}, []string{"kind", "status"}),
		bytes: add.NewCounterVec(prometheus.CounterOpts{
			Name: "modproxy_sent_bytes_total", Help: "Bytes of answers, by kind of request.",
		}, []string{"kind"}),
		seconds: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "modproxy_request_seconds", Help: "Time to answer a request, by its kind.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 4, 10, 60},
		}, []string{"kind"}),
	}
}

// request counts a request that took so long.
func (m *Metrics) request(e *Event, took time.Duration) {
	if m == nil {
		return
	}
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
