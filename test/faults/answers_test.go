//go:build linux

package faults_test

import (
	"fmt"

	"github.com/modproxy/modproxy/test/rig"
)

// modulePath is the path of a module of the rig's registry. packagePath is the path of the package of a version.
func modulePath(name string) string { return "/up.example.com/v1/modules/acme/" + name + "/aws" }

func packagePath(name, version string) string {
	return fmt.Sprintf("/up.example.com~/v1/modules/acme/%s/aws/%s/%s-aws-%s.tar.gz", name, version, name, version)
}

// ask sends a request to modproxy. The header has names and values in turn.
func (r *proxy) ask(method, path string, header ...string) rig.Answer {
	r.t.Helper()
	q, err := rig.NewRequest(r.t.Context(), method, r.url+path, header...)
	if err != nil {
		r.t.Fatal(err)
	}
	return rig.Do(r.client, q)
}
