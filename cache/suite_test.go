package cache_test

import (
	"context"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
	"github.com/modproxy/modproxy/test/registrytest"
)

// withoutGit is an upstream that is asked for no commit.
type withoutGit struct{ modproxy.Registry }

func (withoutGit) PackageAt(context.Context, modproxy.Record) (*modproxy.Package, error) {
	return nil, modproxy.ErrInvalid
}

func (withoutGit) Commit(context.Context, modproxy.Ref) (string, error) { return "", nil }

func TestRegistry(t *testing.T) {
	const host = "registry.example.com"
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		next, err := registrytest.NewMemory(host, registrytest.Modules())
		if err != nil {
			t.Fatal(err)
		}
		s, err := disk.Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		r := newRegistry(storetest.Handle{Records: s.Records(), Blobs: s.Blobs(), Quarantine: s}, ledgertest.NewMemory(), withoutGit{next}, 0)
		t.Cleanup(func() { mustClose(t, r) })
		return r
	})
}
