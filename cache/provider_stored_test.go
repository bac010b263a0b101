package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/rig"
)

// Packages of providers are verified by their bytes alone, and found again when the index is lost.
func TestKeeperOfProviders(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		keeper := &cache.PackageCodec{Ledger: f.next.ledger, Sum: func(r io.Reader) (modproxy.Sum, error) {
			content, err := io.ReadAll(r)
			if err == nil && !bytes.HasPrefix(content, []byte("release")) {
				err = modproxy.ErrInvalid // as for package pack
			}
			return sumOf(content), err
		}}
		f.Store.Kinds = map[store.Kind]store.Codec{cache.PackageKind: keeper, cache.VersionsKind: nil}
		f.fetch(t, "1.0.0", linux, darwin)
		f.fetch(t, "1.1.0", linux)
		for _, rebuilt := range []int{0, 5} {
			out, err := f.Store.Verify(t.Context(), store.Check{Data: true, Repair: true, Found: func(d store.Damage) { t.Errorf("%+v", d) }})
			if err != nil || out.Records != 5 {
				t.Errorf("%+v, %v", out, err)
			}
			for rec := range f.storage.Records.List(t.Context(), cache.PackageKind, "") {
				if err := f.storage.Records.Delete(t.Context(), rec.Ref, rec.Revision); err != nil {
					t.Fatal(err)
				}
			}
			out, err = f.Store.Rebuild(t.Context(), store.Check{})
			if err != nil || out.Records != 5 {
				t.Errorf("rebuilt: %+v, %v; %d", out, err, rebuilt)
			}
		}
		f.Next = nil
		if got, err := f.read(t.Context(), "1.0.0"); err != nil || !bytes.Equal(got, f.next.content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		equal(t, "offline", f.listed(t), "1.0.0[][darwin_arm64 linux_amd64] 1.1.0[][linux_amd64]")
	})
}

// A ledger that is an older copy learns the content of a provider from stored packages.
func TestLedgerBehindOfProvider(t *testing.T) {
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.fetch(t, "1.0.0", linux)
		before := f.next.ledger
		f.next.ledger = ledgertest.NewMemory()
		f.restart(t)
		f.Next = nil
		f.fetch(t, "1.0.0", linux)
		for _, v := range []modproxy.Ref{toy.At("1.0.0"), toy.At("1.0.0").ForPlatform(linux)} {
			was, errWas := before.Lookup(t.Context(), v)
			is, err := f.next.ledger.Lookup(t.Context(), v)
			if errors.Join(err, errWas) != nil || is.ProviderFacts != was.ProviderFacts || is.Sum != was.Sum || is.ProviderFacts == (modproxy.ProviderFacts{}) {
				t.Errorf("%+v, %v; was %+v", is, err, was)
			}
		}
		if keys, err := f.next.ledger.Lookup(t.Context(), toy.SigningKeys()); err != nil || keys.Keys != signer {
			t.Errorf("%+v, %v: any key may sign the next release", keys, err)
		}
	})
}

type storeBlobs = store.Blobs

// linked links what is put.
type linked struct {
	storeBlobs
	name string
	err  error
}

func (l *linked) Put(ctx context.Context, d modproxy.Digest, r io.Reader) error {
	l.err = r.(store.File).Link(l.name)
	return l.storeBlobs.Put(ctx, d, r)
}

// An archive is in a file already when it has come, which storage can have instead of a copy.
func TestFileIsKept(t *testing.T) {
	f := newProviders(t, 1<<20)
	f.onDisk(t)
	f.next.pieces = 1
	f.fetch(t, "1.0.0")
	blobs := &linked{storeBlobs: f.storage.Blobs, name: filepath.Join(t.TempDir(), "link")}
	f.Store.Blobs = blobs
	if _, err := f.read(t.Context(), "1.0.0"); err != nil || blobs.err != nil {
		t.Fatal(err, blobs.err)
	}
	if got, err := os.ReadFile(blobs.name); err != nil || !bytes.Equal(got, f.next.content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// counted counts what is read of blobs.
type counted struct {
	storeBlobs
	n atomic.Int64
}

func (c *counted) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	b, err := c.storeBlobs.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return countedBlob{b, &c.n}, nil
}

type countedBlob struct {
	store.Blob
	total *atomic.Int64
}

func (c countedBlob) Read(p []byte) (int, error) {
	n, err := c.Blob.Read(p)
	c.total.Add(int64(n))
	return n, err
}

// A large archive is read once for the first part of it that is wanted, and then no more of it than is wanted.
func TestPartsOfLarge(t *testing.T) {
	const size = 20 << 20
	f := newProviders(t, size)
	f.onDisk(t)
	f.next.pieces = 1
	blobs := &counted{storeBlobs: f.storage.Blobs}
	f.Store.Blobs = blobs
	if _, err := f.read(t.Context(), "1.0.0"); err != nil {
		t.Fatal(err)
	}
	blobs.n.Store(0)
	for i, ranged := range []string{"bytes=0-9", "bytes=10000000-10000009", "bytes=-1", "bytes=0-9"} {
		w := f.get(t, http.MethodGet, ranged)
		if w.Code != http.StatusPartialContent || w.Body.Len() > 10 {
			t.Fatalf("%s: %d", ranged, w.Code)
		}
		if n, most := blobs.n.Load(), int64(size+(i+1)*(100<<10)); n < size || n > most {
			t.Errorf("%d parts: %d bytes were read, want %d to %d", i+1, n, size, most)
		}
	}
	before := blobs.n.Load()
	if w := f.get(t, http.MethodHead, ""); w.Code != http.StatusOK || blobs.n.Load() != before {
		t.Errorf("HEAD: %d, %d bytes were read", w.Code, blobs.n.Load()-before)
	}
}

// blobFile returns the file of the archive that was kept in dir.
func blobFile(dir string, content []byte) string {
	digest := digestOf(content).String()
	return filepath.Join(dir, "blobs", "v1", "sha256", digest[:2], digest)
}

// After any damage to the file of a large archive, at any time, no client accepts other bytes, and the next client
// receives the original bytes.
func TestDamageToLarge(t *testing.T) {
	const size = 1 << 20
	for name, damage := range damages {
		for _, ranged := range []string{"", "bytes=0-0", "bytes=500000-500010", "bytes=-1"} {
			if !rig.Long() && (ranged == "bytes=0-0" || ranged == "bytes=-1") && name != "first byte" && name != "last byte" {
				continue // each copies a mebibyte many times
			}
			for _, verified := range []bool{false, true} {
				f := newProviders(t, size)
				synctest.Test(t, func(t *testing.T) {
					f.next.pieces = 1
					f.memory = -1
					dir := f.onDisk(t)
					serve := func(ranged string) *httptest.ResponseRecorder {
						w := f.get(t, http.MethodGet, ranged)
						wholly := int64(w.Body.Len()) == w.Result().ContentLength
						want := map[string][]byte{
							"": f.next.content, "bytes=0-0": f.next.content[:1], "bytes=-1": f.next.content[size-1:],
							"bytes=500000-500010": f.next.content[500000:500011],
						}[ranged]
						if wholly && !bytes.Equal(w.Body.Bytes(), want) {
							t.Errorf("%s, %q: complete, and other bytes", name, ranged)
						}
						return w
					}
					serve("")
					if verified {
						serve(ranged)
					}
					if err := damage(blobFile(dir, f.next.content), f.next.content); err != nil {
						t.Fatal(err)
					}
					serve(ranged)
					if !verified || ranged == "" { // else what was read may have been as it was
						if w := serve(""); w.Body.Len() != size {
							t.Errorf("%s, %q: then %d bytes", name, ranged, w.Body.Len())
						}
					}
				})
			}
		}
	}
}

// A release is asked for again when a platform is listed that it does not have, now and then.
func TestReleaseIsRenewed(t *testing.T) {
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.next.lacks = true
		f.fetch(t, "1.0.0", linux)
		f.listed(t)
		zips := func() string {
			p, err := f.Package(t.Context(), toy.At("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if data, err := io.ReadAll(p); err != nil || digestOf(data) != p.Digest {
				t.Errorf("%q, %v", data, err)
			}
			all, err := p.Facts.Zips.All()
			if err != nil {
				t.Error(err)
			}
			return fmt.Sprint(len(all))
		}
		equal(t, "as it was", zips(), "1")
		equal(t, "asked for", f.next.asked("release"), 2)
		f.next.change(func() { f.next.lacks = false })
		equal(t, "a moment later", zips(), "1")
		time.Sleep(renewPause)
		f.next.change(func() { f.next.document = "" })
		f.next.change(func() { f.next.release = time.Minute }) // longer than is waited for
		start := time.Now()
		equal(t, "slow", zips(), "1")
		equal(t, "waited", time.Since(start), 3*time.Second)
		time.Sleep(2 * time.Hour)
		f.next.change(func() { f.next.release = 0 })
		equal(t, "then", zips(), "2")
		equal(t, "asked for", f.next.asked("release"), 3)
		time.Sleep(renewPause)
		equal(t, "later", zips(), "2")
		equal(t, "asked for", f.next.asked("release"), 3)
		rec, err := f.next.ledger.Lookup(t.Context(), toy.At("1.0.0"))
		if err != nil || rec.Sum != sumOf([]byte("release 1.0.0")) {
			t.Errorf("%+v, %v", rec, err)
		}
	})
}

const renewPause = 5 * time.Minute

// The cache evicts the package of a provider before its release, even if the package was used or downloaded later.
func TestReleaseOutlivesItsPackages(t *testing.T) {
	for name, later := range map[string]func(t *testing.T, f *providerFixture){
		"used": func(t *testing.T, f *providerFixture) {
			f.fetch(t, "1.0.0", linux)
			time.Sleep(time.Hour)
			if _, err := f.read(t.Context(), "1.0.0"); err != nil {
				t.Fatal(err)
			}
		},
		"fetched": func(t *testing.T, f *providerFixture) {
			time.Sleep(time.Hour)
			p, err := f.Package(modproxy.AllowPartial(t.Context()), toy.At("1.0.0").ForPlatform(linux))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := io.Copy(io.Discard, p); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newProviders(t, 100_000)
			synctest.Test(t, func(t *testing.T) {
				f.inMemory(t)
				f.fetch(t, "1.0.0")
				later(t, f)
				if _, err := f.Store.Collect(t.Context(), store.Collection{MaxSize: 50_000}); err != nil {
					t.Fatal(err)
				}
				var kept []string
				for l := range f.List(t.Context(), toy) {
					kept = append(kept, l.Version)
				}
				if !slices.Equal(kept, []string{"1.0.0"}) {
					t.Errorf("kept: %q", kept)
				}
			})
		})
	}
}

// After any removal during a download, the release of the package is stored with it: this process holds it, and brings it back if another
// one has removed it.
func TestReleaseStaysWhileItsPackageComes(t *testing.T) {
	for name, c := range map[string]struct {
		remove func(t *testing.T, f *providerFixture)
		asked  int
	}{
		"this process": {func(t *testing.T, f *providerFixture) {
			if _, err := f.Store.Collect(t.Context(), store.Collection{MaxSize: 1}); err != nil {
				t.Error(err)
			}
		}, 1},
		"another process": {func(t *testing.T, f *providerFixture) {
			if _, err := f.storage.Blobs.Remove(t.Context(), store.Evict, digestOf([]byte("release 1.0.0"))); err != nil {
				t.Error(err)
			}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newProviders(t, 100_000)
			synctest.Test(t, func(t *testing.T) {
				f.inMemory(t)
				f.fetch(t, "1.0.0")
				time.AfterFunc(10*time.Second, func() { c.remove(t, f) })
				if got, err := f.read(t.Context(), "1.0.0"); err != nil || !bytes.Equal(got, f.next.content) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				f.Forget(modproxy.Ref{})
				equal(t, "asked for the release", f.next.asked("release"), c.asked)
				f.Next = nil
				f.fetch(t, "1.0.0", linux)
				if _, err := f.Store.Collect(t.Context(), store.Collection{MaxSize: 1}); err != nil {
					t.Error(err)
				}
				f.Forget(modproxy.Ref{})
				if has, err := f.Exists(t.Context(), toy.At("1.0.0")); has || err != nil {
					t.Errorf("it is held for ever: %t, %v", has, err)
				}
			})
		})
	}
}

// A package that is kept no longer counts when another release was accepted, which says that it is another.
func TestReleaseIsAccepted(t *testing.T) {
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.fetch(t, "1.0.0", linux, darwin)
		f.Next = nil
		rec, err := f.next.ledger.Lookup(t.Context(), toy.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		zips, err := rec.Zips.All()
		if err != nil {
			t.Fatal(err)
		}
		zips[linux] = modproxy.Digest{1}
		rec.Zips, rec.Reason = modproxy.NewZips(zips), "announced"
		accepting := rec
		accepting.Sum = modproxy.NewSum([32]byte{1})
		if err := f.next.ledger.Accept(t.Context(), accepting); err != nil {
			t.Fatal(err)
		}
		f.Forget(toy.At("1.0.0"))
		for platform, want := range map[modproxy.Platform]error{linux: modproxy.ErrUnavailable, darwin: nil} {
			p, err := f.Package(t.Context(), toy.At("1.0.0").ForPlatform(platform))
			if err == nil {
				p.Close()
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", platform, err, want)
			}
		}
	})
}
