//go:build linux

package faults_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If the disk answers every request with an error, modproxy keeps running, reports that it is not ready and why, and neither stores nor
// serves wrong content.
func TestInputOutputErrors(t *testing.T) {
	d := newDisk(t, 64, "commit=1")
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	end := r.load(4)
	for started := time.Now(); r.acked() < 20 && time.Since(started) < 2*time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	d.cut()
	kept := r.acked()
	ask := func(path string) (int, string) {
		t.Helper()
		resp, err := r.client.Get(r.url + path)
		if err != nil {
			t.Fatalf("modproxy is gone: %v", err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // the available part
		return resp.StatusCode, string(text)
	}
	var status int
	var text string
	for started := time.Now(); time.Since(started) < 2*time.Minute; time.Sleep(20 * time.Millisecond) {
		if status, text = ask("/-/readyz"); status != http.StatusOK {
			break
		}
	}
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "input/output error") {
		t.Errorf("/-/readyz: %d %s", status, text)
	}
	time.Sleep(6 * time.Second) // until it tries again
	if status, _ := ask("/-/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/-/readyz, when it has tried again: %d", status)
	}
	if status, _ := ask("/-/healthz"); status != http.StatusOK {
		t.Errorf("/-/healthz: %d", status)
	}
	end()
	r.kill()
	d.restore()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	t.Logf("%d packages acknowledged before, %d after; answers by status: %v", kept, r.acked(), r.counts())
}
