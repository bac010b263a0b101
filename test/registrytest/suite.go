package registrytest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// Modules returns the fixture of [TestRegistry]: two modules, versions in two spellings, an executable file and a link.
func Modules() *txtar.Archive {
	return txtar.Parse([]byte(`
-- modules/acme/network/aws/1.0.0/main.tf --
output "version" { value = "1.0.0" }
-- modules/acme/network/aws/1.0.0/modules/subnet/main.tf --
output "subnet" { value = true }
-- modules/acme/network/aws/v1.1/main.tf --
output "version" { value = "1.1.0" }
-- modules/acme/network/aws/v1.1/run.sh* --
#!/bin/sh
-- modules/acme/network/aws/v1.1/linked.tf@ --
main.tf
-- modules/acme/network/aws/2.0.0-beta.1/main.tf --
output "version" { value = "2.0.0-beta.1" }
-- modules/Acme/network/aws/3.0.0/main.tf --
output "namespaces" { value = "case counts" }
`))
}

// known are the canonical versions in Modules, by namespace.
var known = map[string][]string{
	"acme": {"1.0.0", "1.1.0", "2.0.0-beta.1"},
	"Acme": {"3.0.0"},
}

func moduleOf(host, namespace string) modproxy.Address {
	return modproxy.Address{Host: host, Namespace: namespace, Name: "network", System: "aws"}
}

// TestRegistry tests a [modproxy.Registry]. open returns the tested registry, with the modules of [Modules] under host.
// Each subtest calls open, which registers cleanup with t.Cleanup.
func TestRegistry(t *testing.T, host string, open func(t testing.TB) modproxy.Registry) {
	for name, test := range map[string]func(*testing.T, modproxy.Registry, string){
		"versions":   testVersions,
		"location":   testLocation,
		"package":    testPackage,
		"missing":    testMissing,
		"cancelled":  testCancelled,
		"concurrent": testConcurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t), host) })
	}
}

func testVersions(t *testing.T, reg modproxy.Registry, host string) {
	for namespace, want := range known {
		v, err := reg.Versions(t.Context(), moduleOf(host, namespace))
		if err != nil {
			t.Fatalf("versions of %s: %v", namespace, err)
		}
		if len(v.List) != len(want) {
			t.Errorf("%d versions of %s; want %v", len(v.List), namespace, want)
		}
		for _, version := range want {
			if _, ok := v.Find(version); !ok {
				t.Errorf("version %s of %s is not listed", version, namespace)
			}
		}
		checkDocument(t, v)
	}
}

// checkDocument compares the document with the other fields.
func checkDocument(t *testing.T, v *modproxy.Versions) {
	t.Helper()
	parsed, err := modproxy.ParseVersions(v.Document)
	if err != nil {
		t.Fatalf("the document: %v", err)
	}
	if len(parsed.List) != len(v.List) {
		t.Errorf("the document lists %d versions, the list %d", len(parsed.List), len(v.List))
	}
	for i := range min(len(parsed.List), len(v.List)) {
		if parsed.List[i].Spelling != v.List[i].Spelling {
			t.Errorf("entry %d is %q in the document, %q in the list", i, parsed.List[i].Spelling, v.List[i].Spelling)
		}
	}
	if len(v.ETag) < 3 || v.ETag[0] != '"' || !strings.HasSuffix(v.ETag, `"`) {
		t.Errorf("entity tag %s is not a strong one", v.ETag)
	}
	r, err := gzip.NewReader(bytes.NewReader(v.Compressed))
	if err != nil {
		t.Fatalf("the compressed document: %v", err)
	}
	if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, v.Document) {
		t.Errorf("the compressed document is %q, %v; want %q", plain, err, v.Document)
	}
	if v.Time.IsZero() {
		t.Error("the answer does not say when the registry gave it")
	}
}

func testLocation(t *testing.T, reg modproxy.Registry, host string) {
	seen := map[string]string{}
	for namespace, versions := range known {
		for _, version := range versions {
			l, err := reg.Location(t.Context(), moduleOf(host, namespace).At(version))
			if err != nil {
				t.Fatalf("location of %s %s: %v", namespace, version, err)
			}
			if here := strings.HasPrefix(l.URL, "/"); !l.Kept && (l.URL == "" || l.Getter == "" && !here) {
				t.Errorf("location of %s %s is %#v", namespace, version, l)
			}
			if other := seen[l.String()]; other != "" && !l.Kept {
				t.Errorf("%s %s and %s have one location, %s", namespace, version, other, l)
			}
			seen[l.String()] = namespace + " " + version
			if again, err := reg.Location(t.Context(), moduleOf(host, namespace).At(version)); err != nil || again != l && !(again.Kept && again.Subdir == l.Subdir) {
				t.Errorf("location of %s %s was %s, then %s, %v", namespace, version, l, again, err)
			}
		}
	}
}

func testPackage(t *testing.T, reg modproxy.Registry, host string) {
	sums := map[modproxy.Sum]string{}
	for namespace, versions := range known {
		for _, version := range versions {
			name := namespace + " " + version
			first, data := readPackage(t, reg, host, namespace, version)
			second, again := readPackage(t, reg, host, namespace, version)
			if !bytes.Equal(data, again) || first.Digest != second.Digest || first.Sum != second.Sum {
				t.Errorf("%s: a second package differs from the first", name)
			}
			if other := sums[first.Sum]; other != "" {
				t.Errorf("%s and %s have one sum, %s", name, other, first.Sum)
			}
			sums[first.Sum] = name
			checkFiles(t, name, data, expected(t, namespace, version))
		}
	}
}

// readPackage opens and reads a package, and compares it with its fields.
func readPackage(t *testing.T, reg modproxy.Registry, host, namespace, version string) (*modproxy.Package, []byte) {
	t.Helper()
	p, err := reg.Package(t.Context(), moduleOf(host, namespace).At(version))
	if err != nil {
		t.Fatalf("package %s %s: %v", namespace, version, err)
	}
	defer p.Close()
	data, err := io.ReadAll(p)
	if err != nil {
		t.Fatalf("package %s %s: %v", namespace, version, err)
	}
	if int64(len(data)) != p.Size || sha256.Sum256(data) != p.Digest {
		t.Errorf("package %s %s: %d bytes of digest %x; said to be %d of %s", namespace, version, len(data), sha256.Sum256(data), p.Size, p.Digest)
	}
	if sum, err := pack.Verify(bytes.NewReader(data), pack.Limits{}); err != nil || sum != p.Sum {
		t.Errorf("package %s %s: sum %q, %v; said to be %q", namespace, version, sum, err, p.Sum)
	}
	half := p.Size / 2
	if _, err := p.Seek(half, io.SeekStart); err != nil {
		t.Fatalf("package %s %s: seek: %v", namespace, version, err)
	}
	if rest, err := io.ReadAll(p); err != nil || !bytes.Equal(rest, data[half:]) {
		t.Errorf("package %s %s: read from the middle: %d other bytes, %v", namespace, version, len(rest), err)
	}
	return p, data
}

func testMissing(t *testing.T, reg modproxy.Registry, host string) {
	for _, test := range []struct{ namespace, version string }{
		{"absent", "1.0.0"},
		{"acme", "9.9.9"},
		{"Acme", "1.0.0"},
	} {
		m := moduleOf(host, test.namespace)
		_, err := reg.Location(t.Context(), m.At(test.version))
		checkError(t, err, modproxy.ErrNotFound)
		p, err := reg.Package(t.Context(), m.At(test.version))
		checkError(t, err, modproxy.ErrNotFound)
		if p != nil {
			t.Errorf("a package came with the error %v", err)
		}
	}
	_, err := reg.Versions(t.Context(), moduleOf(host, "absent"))
	checkError(t, err, modproxy.ErrNotFound)
}

// checkError checks that an error is want and no other sentinel.
func checkError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v; want one that is %q", err, want)
		return
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("error %q is more than one line", err)
	}
	for _, other := range []error{
		modproxy.ErrInvalid, modproxy.ErrUnauthorized, modproxy.ErrDenied,
		modproxy.ErrNotFound, modproxy.ErrChanged, modproxy.ErrUnavailable,
	} {
		if other != want && errors.Is(err, other) {
			t.Errorf("error %v is %q and %q at once", err, want, other)
		}
	}
}

// A request with an ended context is answered, or fails with the error of the context, and never with an error about
// the module.
func testCancelled(t *testing.T, reg modproxy.Registry, host string) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := moduleOf(host, "acme")
	check := func(what string, err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; want an answer or %v", what, err, context.Canceled)
		}
	}
	_, err := reg.Versions(ctx, m)
	check("versions", err)
	_, err = reg.Location(ctx, m.At("1.0.0"))
	check("location", err)
	p, err := reg.Package(ctx, m.At("1.0.0"))
	check("package", err)
	if err == nil {
		p.Close()
	}
	if _, err := reg.Versions(t.Context(), m); err != nil {
		t.Errorf("versions, after a cancelled question: %v", err)
	}
}

func testConcurrent(t *testing.T, reg modproxy.Registry, host string) {
	var wg sync.WaitGroup
	for range 8 {
		for namespace, versions := range known {
			wg.Go(func() {
				m := moduleOf(host, namespace)
				if v, err := reg.Versions(t.Context(), m); err != nil || len(v.List) != len(versions) {
					t.Errorf("versions of %s: %v", namespace, err)
				}
				for _, version := range versions {
					if _, err := reg.Location(t.Context(), m.At(version)); err != nil {
						t.Errorf("location of %s %s: %v", namespace, version, err)
					}
					askPackage(t, reg, m, version)
				}
			})
		}
	}
	wg.Wait()
}

func askPackage(t *testing.T, reg modproxy.Registry, m modproxy.Address, version string) {
	p, err := reg.Package(t.Context(), m.At(version))
	if err != nil {
		t.Errorf("package %s %s: %v", m, version, err)
		return
	}
	defer p.Close()
	if data, err := io.ReadAll(p); err != nil || sha256.Sum256(data) != p.Digest {
		t.Errorf("package %s %s: digest %x, %v; want %s", m, version, sha256.Sum256(data), err, p.Digest)
	}
}
