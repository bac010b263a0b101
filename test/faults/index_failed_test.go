//go:build linux

package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The index is damaged while modproxy serves, so that bbolt panics in a write and again while it rolls back: readiness fails and
// names the remedy, every request for a new package is answered, stored packages are served, SIGTERM ends the process, and
// the remedy works.
func TestIndexFailsWhileServing(t *testing.T) {
	d := newDirectory(t, 6)
	d.start()
	d.ready()
	index, err := os.OpenFile(filepath.Join(d.data, "index.db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole := d.file(d.data, "index.db")
	for _, p := range pages(whole, 16) {
		at := int64(cap(whole) - cap(p)) // offset of the page
		if _, err := index.WriteAt(make([]byte, len(p)), at); err != nil {
			t.Fatal(err)
		}
	}
	index.Close()
	for i := range 12 { // more than are downloaded at the same time
		a := d.ask("GET", packagePath(fmt.Sprintf("new%d", i), "1.0.0"))
		if a.Err != nil || a.Status != http.StatusFailedDependency || !strings.Contains(a.Said(), "modproxy rebuild") {
			t.Errorf("a new package: %v", a)
		}
	}
	if a := d.ask("GET", "/-/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "modproxy rebuild") {
		t.Errorf("/-/readyz: %v %s", a, a.Body)
	}
	for _, p := range d.kept {
		if a := d.ask("GET", p.path); a.Status != http.StatusOK || !bytes.Equal(a.Body, p.body) {
			t.Errorf("%s: %v", p.path, a)
		}
	}
	if err := d.server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError // it reports that it could not record the last uses of packages
	if err := d.server.Wait(verbTime); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		t.Error(err)
	}
	d.output("rebuild")
	d.start()
	d.ready()
	for _, p := range d.kept {
		if a := d.ask("GET", p.path); a.Status != http.StatusOK || !bytes.Equal(a.Body, p.body) {
			t.Errorf("after the rebuild: %s: %v", p.path, a)
		}
	}
	d.stop()
}
