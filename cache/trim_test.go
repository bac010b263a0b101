package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
)

// For any number of modules of a registry, their stored documents
// have a bound, and what there are packages of stays.
func TestVersionsDocumentsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.MaxVersions = 16 << 10 })
		f.versions(t)
		if _, err := read(f.Registry, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			m := vpc
			m.Name = fmt.Sprintf("m%d", i)
			if _, err := f.Versions(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		left := 0
		for i := range 100 {
			m := vpc
			m.Name = fmt.Sprintf("m%d", i)
			if _, err := f.document(t, m); err == nil {
				left++
			}
		}
		// Each counts as more than a kilobyte.
		if left == 0 || left > 18 {
			t.Errorf("%d of 100 documents are left", left)
		}
		if f.events.count(cache.VersionsTrimmed) == 0 {
			t.Error("nobody was told")
		}
		if _, err := f.document(t, vpc); err != nil {
			t.Errorf("a document of a module with a package: %v", err)
		}
	})
}

// document returns the record of a versions document.
func (f *fixture) document(t *testing.T, m modproxy.Address) (store.Record, error) {
	name := m.Host + "/" + m.Namespace + "/" + m.Name + "/" + m.System
	return f.storage.Records().Get(t.Context(), store.Ref{Kind: cache.VersionsKind, Key: name})
}
