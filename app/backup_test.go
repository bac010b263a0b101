package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/backup"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/test/registrytest"
)

// copyFiles copies files and directories below from, in the given order. Like cp -r, it uses no lock.
func copyFiles(from, to string, names ...string) error {
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(from, name), func(path string, d fs.DirEntry, err error) error {
			rel, relErr := filepath.Rel(from, path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it was a temporary file
			case err != nil || relErr != nil:
				return errors.Join(err, relErr)
			case d.IsDir():
				return os.MkdirAll(filepath.Join(to, rel), 0o700)
			}
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				err = os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o700)
			}
			return errors.Join(err, os.WriteFile(filepath.Join(to, rel), text, 0o600))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestBackupUnderLoad: a copy of the directory is made while modproxy downloads, in the order of docs/how-to/backup.md. A proxy
// that starts with the copy serves every version that was served before, with the same content.
func TestBackupUnderLoad(t *testing.T) {
	const versions, copies = 60, 4
	fixture, etc := t.TempDir(), t.TempDir()
	for i := range versions {
		name := filepath.Join(fixture, "modules", "acme", "vpc", "aws", numbered(i), "main.tf")
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, fmt.Appendf(nil, "output \"version\" { value = %d }\n", i), 0o600))
	}
	upstream, err := registrytest.Start(fixture, registrytest.Options{})
	must(t, err)
	defer upstream.Close()
	must(t, registrytest.CA().WriteFiles(etc, "127.0.0.1"))
	configure := func(data string) *config.Config {
		c := config.Default()
		c.Data, c.Egress.Allow, c.Egress.CAFile = data, []string{"127.0.0.0/8"}, filepath.Join(etc, "ca.pem")
		c.Upstreams = []config.Upstream{{Host: vpc.Host, Modules: upstream.URL + "/v1/modules/"}}
		return c
	}
	data := filepath.Join(t.TempDir(), "data")
	s, err := openAll(t.Context(), configure(data))
	must(t, err)

	var served atomic.Int64                // the number of served versions
	reached := make(chan struct{}, copies) // receives when a copy is due
	var load sync.WaitGroup
	load.Go(func() {
		for i := range versions {
			if _, err := sumServed(t.Context(), s, i); err != nil {
				t.Error(err)
			}
			served.Store(int64(i + 1))
			if (i+1)%(versions/(copies+1)) == 0 && i+1 < versions {
				reached <- struct{}{}
			}
		}
	})
	type backup struct {
		dir string
		has int64
	}
	var backups []backup
	for range copies {
		<-reached
		b := backup{t.TempDir(), served.Load()}
		must(t, copyFiles(data, b.dir, "ledger/head", "ledger/key", "ledger/log", "blobs", "packages", "index.db", "layout.json"))
		backups = append(backups, b)
	}
	load.Wait()
	want := make([]modproxy.Sum, versions)
	for i := range versions {
		want[i], err = sumServed(t.Context(), s, i)
		must(t, err)
	}
	must(t, s.Close())

	for _, b := range backups {
		s, err := openAll(t.Context(), configure(b.dir))
		if err != nil { // the index was copied while it was written
			for _, name := range []string{"index.db", "layout.json", "blobs", "packages"} {
				must(t, os.RemoveAll(filepath.Join(b.dir, name)))
			}
			s, err = openAll(t.Context(), configure(b.dir))
		}
		must(t, err)
		for i := range b.has {
			if r, err := s.Ledger.Lookup(t.Context(), vpc.At(numbered(i))); err != nil || r.Sum != want[i] {
				t.Errorf("a copy after %d versions: the ledger has %v, %v of %s; want %s", b.has, r.Sum, err, numbered(i), want[i])
			}
			if got, err := sumServed(t.Context(), s, int(i)); err != nil || got != want[i] {
				t.Errorf("a copy after %d versions: %s is %s, %v; want %s", b.has, numbered(i), got, err, want[i])
			}
		}
		must(t, s.Close())
	}
}

// A restore refuses a backup in which the ledger does not have the packages, and leaves nothing.
func TestRestoreContradiction(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	d, err := disk.Open(t.Context(), dir)
	must(t, err)
	l, err := ledger.Open(other)
	must(t, err)
	defer func() { must(t, errors.Join(d.Close(), l.Close())) }()
	must(t, l.Add(t.Context(), modproxy.Record{Ref: vpc.At("1.0.0"), Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", Subdir: ".", Time: time.Now()}))
	digest := modproxy.Digest(sha256.Sum256(nil))
	must(t, d.Blobs().Put(t.Context(), digest, strings.NewReader("")))
	ref := store.Ref{Kind: cache.PackageKind, Key: vpc.String() + "/2.0.0"}
	_, err = d.Records().Put(t.Context(), store.Record{Ref: ref, Value: []byte("{}"), Needs: []modproxy.Digest{digest}})
	must(t, err)
	s := store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d})
	source := backup.Source{Ledger: l, Store: s, Secret: func(string) ([]byte, error) { return nil, fs.ErrNotExist }}
	var b bytes.Buffer
	_, err = source.Write(t.Context(), &b, backup.Options{Packages: true})
	must(t, errors.Join(err, s.Close(t.Context())))
	c := config.Default()
	c.Data = filepath.Join(t.TempDir(), "data")
	if _, err := Restore(t.Context(), c, &b); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "contradicts itself in 1 places") {
		t.Errorf("Restore: %v", err)
	}
	if _, err := os.Lstat(c.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

// openAll opens a whole proxy without a listener.
func openAll(ctx context.Context, c *config.Config) (*App, error) {
	a := inside(c, Options{})
	if err := a.open(ctx, nil); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func numbered[T int | int64](i T) string { return fmt.Sprintf("1.%d.0", i) }

func sumServed(ctx context.Context, s *App, i int) (modproxy.Sum, error) {
	p, err := s.Registry.Package(ctx, vpc.At(numbered(i)))
	if err != nil {
		return "", err
	}
	return p.Sum, p.Close()
}
