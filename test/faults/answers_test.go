//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// modulePath is the path of a module of the rig's registry; packagePath that of
// the package of a version.
func modulePath(name string) string { return "/up.example.com/v1/modules/acme/" + name + "/aws" }

func packagePath(name, version string) string {
	return fmt.Sprintf("%s/%s/%s-aws-%s.tar.gz", modulePath(name), version, name, version)
}

// answered is an answer as a client has it. One that did not come whole has an
// error.
type answered struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
	err    error
}

// ask asks modproxy. The header has names and values in turn.
func (r *rig) ask(method, path string, header ...string) (a answered) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	started := time.Now()
	defer func() { a.took = time.Since(started) }()
	resp, err := r.client.Do(req)
	if err != nil {
		return answered{err: err}
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// said is the error that modproxy answered with; empty when it is not one of its.
func (a answered) said() string {
	var text struct{ Errors []string }
	if json.Unmarshal(a.body, &text) != nil {
		return ""
	}
	return strings.Join(text.Errors, "; ")
}

func (a answered) String() string {
	if said := a.said(); said != "" || a.err != nil {
		return fmt.Sprintf("%d %q %v after %v", a.status, said, a.err, a.took)
	}
	return fmt.Sprintf("%d, %d bytes after %v", a.status, len(a.body), a.took)
}
