package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/modproxy/modproxy"
)

// packed is one file in a package.
type packed struct {
	data string
	exec bool
}

// expected returns the files in the package of a version in [Modules]. Links are the files that they point to.
func expected(t *testing.T, namespace, version string) map[string]packed {
	t.Helper()
	files, err := fromArchive(Modules())
	if err != nil {
		t.Fatal(err)
	}
	c, err := readContent(files)
	if err != nil {
		t.Fatal(err)
	}
	address := namespace + "/network/aws"
	want := map[string]packed{}
	for spelling := range c.modules[address] {
		if v, err := modproxy.CanonicalVersion(spelling); err != nil || v != version {
			continue
		}
		list := c.archives[packageName(address, spelling)]
		for _, f := range list {
			if f.link == "" {
				want[f.name] = packed{string(f.data), f.exec}
			}
		}
		for _, f := range list {
			if f.link != "" {
				want[f.name] = want[path.Join(path.Dir(f.name), f.link)]
			}
		}
	}
	return want
}

// checkFiles unpacks a package and compares each file.
func checkFiles(t *testing.T, name string, data []byte, want map[string]packed) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got := map[string]packed{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		content, err := io.ReadAll(r)
		if err != nil || h.Typeflag != tar.TypeReg {
			t.Errorf("%s: %s is of type %q, %v; want a regular file", name, h.Name, h.Typeflag, err)
		}
		got[h.Name] = packed{string(content), h.Mode&0o100 != 0}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s has %v with contents %v\nwant %v with contents %v", name,
			slices.Sorted(maps.Keys(got)), got, slices.Sorted(maps.Keys(want)), want)
	}
}
