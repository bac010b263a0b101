//go:build linux

package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The disk is slow to write, for a while: who asks for what is kept does not wait
// for those who keep something, and all goes on as before afterwards.
func TestSlowDisk(t *testing.T) {
	const promised = 9 * time.Second // by which versions and locations are answered, whatever happens
	r := newRig(t, os.Getenv(programVariable), filepath.Join(t.TempDir(), "data"))
	r.start()
	r.ready()
	r.fill(20)
	kept := r.some()
	versions := modulePath("m1") + "/versions"
	r.ask("GET", versions)
	for _, calls := range []string{"fsync,fdatasync", "pwrite64"}[:rounds(1, 2)] {
		endLoad, endDrift := r.load(8), r.loadDrift()
		end := r.inject(calls, "delay_enter=200000")
		slowest := map[string]time.Duration{}
		asked := 0
		for started := time.Now(); time.Since(started) < time.Duration(rounds(1, 30))*time.Second; asked++ {
			new := modulePath("new") + fmt.Sprintf("/1.%d.0/download", r.next.Add(1))
			for _, path := range []string{"/-/healthz", "/-/readyz", versions, kept, new} {
				a := r.ask("GET", path)
				if a.status != http.StatusOK && a.status != http.StatusNoContent {
					t.Errorf("%s: %v", path, a)
				}
				kind := filepath.Base(path)
				slowest[kind] = max(slowest[kind], a.took)
			}
		}
		end()
		for kind, took := range slowest {
			if took > promised {
				t.Errorf("while %s are slow, %s took %v", calls, kind, took)
			}
		}
		t.Logf("while %s are slow, each was asked %d times, and the slowest took %v", calls, asked, slowest)
		endLoad()
		endDrift()
		r.fill(10)
	}
	r.saidNothingWrong()
	r.stop()
	r.afterwards()
	t.Logf("%d packages and %d drifts acknowledged and there; answers by status: %v", r.acked(), len(r.drifts), r.counts())
}
