package cache_test

import (
	"testing"
	"testing/synctest"
)

// Listing very many modules does not fill the memory with their documents.
func TestListRemembersNoDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := f.elsewhere(t)
		if _, err := other.Versions(t.Context(), vpc); err != nil {
			t.Fatal(err)
		}
		if _, err := read(other, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		w := f.watch()
		var fromStore bool
		looking := func() { fromStore = true }
		listed := 0
		w.read.Store(&looking)
		for _, err := range f.List(t.Context(), vpc) {
			if err != nil {
				t.Fatal(err)
			}
			listed++
		}
		if listed != 1 || !fromStore {
			t.Fatalf("%d packages listed, document read: %v", listed, fromStore)
		}
		fromStore = false
		w.read.Store(&looking)
		equal(t, "versions", f.versions(t), "1.0.0 1.1.0 hit")
		if !fromStore {
			t.Error("the document was in memory")
		}
	})
}
