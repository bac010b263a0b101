package app

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/proxy"
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
