//go:build linux

package faults_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// If the disk is slow to write for a while, requests for stored packages do not wait for writes. Afterwards everything works as before.
func TestSlowDisk(t *testing.T) {
	const (
		delay    = 2 * time.Second // of every system call
		promised = 9 * time.Second // limit for versions and locations
	)
	t.Setenv("MODPROXY_CACHE_MEMORY", "64KiB") // packages are read from the disk
	r := newProxy(t, with{})
	r.start()
	r.ready()
	r.fill(20)
	kept := r.some()
	versions := modulePath("m1") + "/versions"
	r.ask("GET", versions)
	for _, calls := range []string{"fsync,fdatasync", "pwrite64"}[:rounds(1, 2)] {
		endLoad, endDrift := r.load(8), r.loadDrift()
		end := r.inject(calls, fmt.Sprintf("delay_enter=%d", delay.Microseconds()))
		took := map[string][]time.Duration{}
		for started := time.Now(); time.Since(started) < time.Duration(rounds(4, 30))*time.Second; {
			new := modulePath("new") + fmt.Sprintf("/1.%d.0/download", r.next.Add(1))
			for _, path := range []string{"/-/healthz", "/-/readyz", versions, kept, new} {
				a := r.ask("GET", path)
				if a.Status != http.StatusOK && a.Status != http.StatusNoContent {
					t.Errorf("%s: %v", path, a)
				}
				kind := filepath.Base(path)
				took[kind] = append(took[kind], a.Took)
			}
		}
		end()
		for kind, all := range took {
			slices.Sort(all)
			most, half := all[len(all)-1], all[len(all)/2]
			if rig.Late(most, promised) || rig.Late(half, delay/2) && kind != "download" {
				t.Errorf("while %s are slow, %s took %v, and half of them more than %v", calls, kind, most, half)
			}
			t.Logf("while %s are slow: %s %d times, half of them within %v, all within %v", calls, kind, len(all), half, most)
		}
		endLoad()
		endDrift()
		r.fill(10)
	}
	r.saidNothingWrong()
	r.stop()
	r.afterwards()
	t.Logf("%d packages and %d drifts acknowledged and there; answers by status: %v", r.acked(), len(r.drifts), r.counts())
}
