package proxy

import (
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const metricsFile = "../docs/reference/metrics.md"

const metricsHead = `<!-- go test ./proxy -run TestReference -update writes this page. -->

# Metrics

` + "`/-/metrics`" + ` is in the format of Prometheus, and needs an admin token. [Monitoring](../how-to/monitoring.md) says on which metrics to
alert. The metrics of the Go runtime and of the process are there, too.

- An ` + "`outcome`" + ` of requests and downloads is ` + "`ok` or `error`" + `; one of the policy is the reason of the refusal.
- A ` + "`kind`" + ` is what was requested: ` + "`versions`, `download`, `package`, `provider_versions`, `mirror_index`" + ` and others.
- An ` + "`event`" + ` of the ledger has the name of the [log event](log-events.md#the-ledger) without ` + "`ledger_`" + `; one of the storage has
  the name of the [log event](log-events.md#storage).

| metric | type | labels | |
|---|---|---|---|
`

type storage struct{}

func (storage) Usage() (kept, reserved int64) { return 0, 0 }

var (
	helpLine = regexp.MustCompile(`^# HELP (modproxy_\w+) (.*)$`)
	typeLine = regexp.MustCompile(`^# TYPE (modproxy_\w+) (\w+)$`)
	sample   = regexp.MustCompile(`^(modproxy_\w+?)(?:_bucket|_sum|_count)?\{(.*)\} `)
	label    = regexp.MustCompile(`(\w+)="`)
	// declared finds the name of a metric in the source: before its help text, in a call of a helper or in the options of Prometheus.
	declared = regexp.MustCompile(`"(?:modproxy_)?([a-z]+(?:_[a-z]+)*)",\s+(?:Help: )?"[A-Z0-9]`)
)

// declaredMetrics returns the names of the metrics in the source, with the files that declare them.
func declaredMetrics(t *testing.T) map[string]string {
	t.Helper()
	own, _ := filepath.Glob("*.go") // the error is that of the pattern
	shared, _ := filepath.Glob("../httpx/*.go")
	all := map[string]string{}
	for _, file := range append(own, shared...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || !strings.Contains(string(text), `"github.com/prometheus/client_golang/`) {
			continue
		}
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			all["modproxy_"+found[1]] = file
		}
	}
	return all
}

// TestReference derives docs/reference/metrics.md from the metrics that the proxy serves; go test -update writes it. It measures
// every metric, because a metric with labels is served after its first measurement, and fails for a metric of the source that is not served.
func TestReference(t *testing.T) {
	m := NewMetrics()
	// Measure every metric here.
	New(Config{Metrics: m}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/-/healthz", nil))
	m.Asked("versions", nil)
	m.FetchStarted()
	m.FetchEnded(time.Second, 1, nil)
	m.Refused("denied", false)
	m.Mirrored("dir", 0)
	m.MeasurePolicy(func() bool { return true })
	m.MeasureCertificate(time.Now)
	m.MeasureRequests(func() int { return 1 })
	m.MeasureStorage(storage{}, 0)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/-/metrics", nil))
	type metric struct{ help, kind, labels string }
	served := map[string]*metric{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if found := helpLine.FindStringSubmatch(line); found != nil {
			served[found[1]] = &metric{help: found[2]}
		}
		if found := typeLine.FindStringSubmatch(line); found != nil {
			served[found[1]].kind = found[2]
		}
		if found := sample.FindStringSubmatch(line); found != nil {
			var labels []string
			for _, l := range label.FindAllStringSubmatch(found[2], -1) {
				if l[1] != "le" {
					labels = append(labels, "`"+l[1]+"`")
				}
			}
			served[found[1]].labels = strings.Join(labels, ", ")
		}
	}
	source := declaredMetrics(t)
	for name, file := range source {
		if served[name] == nil {
			t.Errorf("%s: %s has no sample, so %s would lack it: measure it here", file, name, metricsFile)
		}
	}
	for name := range served {
		if source[name] == "" {
			t.Errorf("%s is served, but declaredMetrics does not find it: mend its pattern", name)
		}
	}
	if t.Failed() {
		return
	}
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, name := range slices.Sorted(maps.Keys(served)) {
		s := served[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, s.kind, s.labels, s.help)
	}
	if *update {
		if err := os.WriteFile(metricsFile, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(text), b.String()); diff != "" {
		t.Fatalf("%s: -is +derived (go test -update writes it)\n%s", metricsFile, diff)
	}
}
