package bundle_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/test/registrytest"
)

// A bundle passes the tests of a registry. The exported registry need not be a cache.
func TestSuite(t *testing.T) {
	const host = "registry.example.com"
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		from, err := registrytest.NewMemory(host, registrytest.Modules())
		must(t, err)
		a := newSide(t)
		var all []modproxy.Ref
		for _, namespace := range []string{"Acme", "acme"} {
			m := modproxy.Address{Host: host, Namespace: namespace, Name: "network", System: "aws"}
			list, err := from.Versions(t.Context(), m)
			must(t, err)
			for _, entry := range list.List {
				v := m.At(entry.Version.String())
				p, err := from.Package(t.Context(), v)
				if err == nil {
					err = a.log.Add(t.Context(), modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: time.Now()})
				}
				must(t, err)
				p.Close()
				all = append(all, v)
			}
		}
		var whole bytes.Buffer
		x := bundle.Exporter{Registry: from, Ledger: a.log, FirstSeen: a.firstSeen}
		must(t, write(t, x, &whole, all, nil))
		r, err := bundle.Open(bytes.NewReader(whole.Bytes()), int64(whole.Len()), a.trust(a), bundle.Releases{})
		must(t, err)
		return r
	})
}
