//go:build linux

package faults_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/registrytest"
)

// upstream starts a registry at its own address that answers with h.
func upstream(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	config, err := registrytest.CA().ServerConfig("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections of killed programs
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// answer is a registry that has every version of every module: a few files, whose sizes and contents depend on the name.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/download"):
		w.Header().Set("X-Terraform-Get", "/archives"+strings.TrimSuffix(r.URL.Path, "/download")+".tar.gz")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/versions"):
		fmt.Fprint(w, `{"modules": [{"versions": [{"version": "1.0.0"}]}]}`)
	case strings.HasPrefix(r.URL.Path, "/archives/"):
		w.Header().Set("Content-Type", "application/gzip")
		w.Write(archive(path.Base(path.Dir(path.Dir(r.URL.Path))) + r.URL.Path))
	default:
		http.NotFound(w, r)
	}
}

// archive is an archive of 1 to 100 KiB that does not compress.
func archive(name string) []byte {
	h := fnv.New64a()
	h.Write([]byte(name))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	content := make([]byte, 1<<10+random.IntN(100<<10))
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	return packed(name, content)
}

// packed is an archive of a module with content in a file.
func packed(name string, content []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression) // it does not compress, and this is a level
	t := tar.NewWriter(z)
	for file, data := range map[string][]byte{"main.tf": []byte("# " + name + "\n"), "data.bin": content} {
		t.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(data))}) // writes to a buffer
		t.Write(data)
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

// random returns n bytes that depend on a name.
func random(name string, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8(sha256.Sum256([]byte(name))).Read(data) // never fails
	return data
}
