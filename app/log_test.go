package app

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// Entries about recorded and drifted content have a commit only if the content comes from a repository.
func TestObserveLedger(t *testing.T) {
	v := modproxy.Address{Host: "registry.acme.example", Namespace: "acme", Name: "network", System: "aws"}.At("1.0.0")
	for _, source := range []modproxy.Source{{URL: "https://files.acme.example/a.zip"}, {URL: "https://git.acme.example/a", Commit: "1234abcd"}} {
		for _, e := range []ledger.Event{
			{Kind: ledger.Recorded, Ref: v, Record: modproxy.Record{Source: source}},
			{Kind: ledger.Drifted, Ref: v, Drift: ledger.Drift{Source: source}},
		} {
			core, seen := observer.New(zap.InfoLevel)
			(&parts{log: zap.New(core), metrics: proxy.NewMetrics()}).observeLedger(e)
			entries := seen.TakeAll()
			if len(entries) != 1 {
				t.Fatalf("%v: %d entries", e.Kind, len(entries))
			}
			fields := entries[0].ContextMap()
			commit, has := fields["commit"]
			if fields["source"] != source.URL || has != (source.Commit != "") || has && commit != source.Commit {
				t.Errorf("%v of %+v: %v", e.Kind, source, fields)
			}
		}
	}
}

// Failures of the storage are counted by the name of their entry in the log.
func TestObserveStorage(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	p := &parts{log: zap.New(core), metrics: proxy.NewMetrics(), data: data{disk: new(disk.Directory)}}
	p.observe(cache.Event{Kind: cache.StoreFailed, Err: errors.New("input/output error")})
	for range 2 {
		p.observeStore(store.Event{Kind: store.StorageFailed, Err: errors.New("input/output error")})
	}
	w := httptest.NewRecorder()
	p.metrics.ServeHTTP(w, httptest.NewRequest("GET", "/-/metrics", nil))
	for i, want := range []string{"index_failed", "storage_failed"} {
		if line := fmt.Sprintf("modproxy_storage_failures_total{event=%q} %d\n", want, i+1); !strings.Contains(w.Body.String(), line) {
			t.Errorf("the metrics have no line %q", line)
		}
	}
	for i, want := range []string{"index_failed", "storage_failed", "storage_failed"} {
		if got := seen.All()[i].Message; got != want {
			t.Errorf("entry %d of the log is %s, want %s", i, got, want)
		}
	}
}
