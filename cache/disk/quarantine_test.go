package disk_test

import (
	"testing"
	"testing/synctest"

	"github.com/modproxy/modproxy/cache"
)

// All that was set aside counts, also when the clock was set back since: in the
// bubble it is the year 2000.
func TestQuarantinedBeforeTheClockWasSetBack(t *testing.T) {
	w := newWorld(t)
	s := mustOpen(t, w.dir)
	if err := s.Quarantine(w.records["1.0.0"].Digest); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		all, err := s.Quarantined(0, false)
		if all != (cache.Removed{Packages: 1, Bytes: 5}) || err != nil {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
