package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// What comes is given as it comes, to all from one fetch, but for its end; and it is kept then.
func TestFollow(t *testing.T) {
	for _, size := range []int{1, 64 << 10, 64<<10 + 1, 1 << 20} {
		for where, fixture := range map[string]func(*providerFixture, *testing.T) string{
			"disk": (*providerFixture).onDisk, "memory": (*providerFixture).inMemory,
		} {
			t.Run(fmt.Sprint(where, size), func(t *testing.T) {
				f := newProviders(t, size)
				synctest.Test(t, func(t *testing.T) {
					fixture(f, t)
					start := time.Now()
					var group sync.WaitGroup
					for i := range 20 {
						group.Go(func() {
							time.Sleep(time.Duration(i) * time.Second)
							if got, err := f.read(t.Context(), "1.0.0"); err != nil || !bytes.Equal(got, f.next.content) {
								t.Errorf("%d: %d bytes, %v", i, len(got), err)
							}
						})
					}
					p, err := f.Package(modproxy.AllowPartial(t.Context()), toy.At("1.0.0").ForPlatform(linux))
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					equal(t, "Size", p.Size, int64(size))
					equal(t, "Digest", p.Digest, digestOf(f.next.content))
					if time.Since(start) != 0 || p.Partial == nil {
						t.Fatalf("it was waited for %v", time.Since(start))
					}
					n, err := io.CopyN(io.Discard, p, max(0, int64(size)-64<<10))
					if err != nil || time.Since(start) > 19500*time.Millisecond {
						t.Errorf("%d bytes after %v, %v", n, time.Since(start), err)
					}
					if rest, err := io.ReadAll(p); err != nil || n+int64(len(rest)) != int64(size) || time.Since(start) != 20*time.Second {
						t.Errorf("%d bytes and %d after %v, %v", n, len(rest), time.Since(start), err)
					}
					if facts, err := p.Partial.Complete(t.Context()); err != nil || facts.Hashes != unpacked {
						t.Errorf("Arrived: %v, %v", facts, err)
					}
					group.Wait()
					equal(t, "zips asked for", f.next.asked("zip"), 1)
					equal(t, "locations asked for", f.next.asked("location"), 0)
				})
			})
		}
	}
}

// After any failure of a download, no client has all of it, the next fetch is a new one, and nothing is left over.
func TestFollowFails(t *testing.T) {
	broken := fmt.Errorf("%w: broken", modproxy.ErrUnavailable)
	for name, change := range map[string]func(*providers){
		"cut":     func(n *providers) { n.missing = broken },
		"shorter": func(n *providers) { n.missing = io.EOF },
		"wrong":   func(n *providers) { n.wrong = broken },
		"flipped": func(n *providers) { n.flip = true },
		"other":   func(n *providers) { n.content = bytes.Clone(n.content); n.wrong = modproxy.ErrChanged },
	} {
		t.Run(name, func(t *testing.T) {
			f := newProviders(t, 1<<20)
			synctest.Test(t, func(t *testing.T) {
				f.onDisk(t)
				good := f.next.content
				change(f.next)
				var group sync.WaitGroup
				for i := range 5 {
					group.Go(func() {
						time.Sleep(time.Duration(i) * time.Second)
						var failed *modproxy.FetchFailed
						got, err := f.read(t.Context(), "1.0.0")
						if !errors.As(err, &failed) || len(got) > 1<<20-64<<10 {
							t.Errorf("%d bytes, %v", len(got), err)
						}
					})
				}
				group.Wait()
				time.Sleep(time.Minute)
				f.next.change(func() { f.next.content, f.next.missing, f.next.wrong, f.next.flip = good, nil, nil, false })
				if got, err := f.read(t.Context(), "1.0.0"); err != nil || !bytes.Equal(got, f.next.content) {
					t.Errorf("then: %d bytes, %v", len(got), err)
				}
			})
			empty(t, f.next.dir)
		})
	}
}

// get is a request for the zip archive, answered as package proxy does.
func (f *providerFixture) get(t *testing.T, method, ranged string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, "/", nil)
	if ranged != "" {
		request.Header.Set("Range", ranged)
	}
	p, err := f.Package(modproxy.AllowPartial(t.Context()), toy.At("1.0.0").ForPlatform(linux))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if ranged != "" {
		if err := p.Verify(t.Context()); err != nil {
			t.Log(err)
			return &httptest.ResponseRecorder{Code: http.StatusBadGateway, Body: &bytes.Buffer{}}
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/zip") // else it reads some
	http.ServeContent(w, request, "", p.Time, p)
	return w
}

// A part of what comes is given when all of it is kept, and HEAD does not wait.
func TestFollowPart(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.onDisk(t)
		start := time.Now()
		w := f.get(t, "HEAD", "")
		if w.Header().Get("Content-Length") != "1048576" || time.Since(start) != 0 {
			t.Errorf("HEAD: %v after %v", w.Header(), time.Since(start))
		}
		var group sync.WaitGroup
		for ranged, want := range map[string][]byte{
			"bytes=0-": f.next.content, "bytes=0-9": f.next.content[:10], "bytes=500000-600000": f.next.content[500000:600001],
			"bytes=-5": f.next.content[1<<20-5:],
		} {
			group.Go(func() {
				w := f.get(t, "GET", ranged)
				if w.Code != 206 || !bytes.Equal(w.Body.Bytes(), want) || time.Since(start) != 20*time.Second {
					t.Errorf("%s: %d, %d bytes after %v", ranged, w.Code, w.Body.Len(), time.Since(start))
				}
			})
		}
		group.Wait()
		equal(t, "zips asked for", f.next.asked("zip"), 1)
	})
}

// After EndPartial, a client waits for the whole package. One that has received a part receives the rest.
func TestEndPartial(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.onDisk(t)
		start := time.Now()
		open := func(when string, want time.Duration, isPartial bool) *modproxy.Package {
			p, err := f.Package(modproxy.AllowPartial(t.Context()), toy.At("1.0.0").ForPlatform(linux))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != want || (p.Partial != nil) != isPartial {
				t.Errorf("%s: partial %v after %v", when, p.Partial != nil, took)
			}
			return p
		}
		before := open("before", 0, true)
		defer before.Close()
		f.EndPartial()
		open("afterwards", 20*time.Second, false).Close()
		if got, err := io.ReadAll(before); err != nil || !bytes.Equal(got, f.next.content) {
			t.Errorf("the rest: %d bytes, %v", len(got), err)
		}
		equal(t, "zips asked for", f.next.asked("zip"), 1)
	})
}

// A client that goes away ends nothing for the others, or when it was the only one.
func TestFollowersLeave(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.onDisk(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if got, err := f.read(ctx, "1.0.0"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3500*time.Millisecond {
			t.Errorf("%d bytes, %v after %v", len(got), err, time.Since(start))
		}
		time.Sleep(time.Minute)
		f.next.change(func() { f.next.missing = errDown })
		if got, err := f.read(t.Context(), "1.0.0"); err != nil || !bytes.Equal(got, f.next.content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		equal(t, "zips asked for", f.next.asked("zip"), 1)
	})
	empty(t, f.next.dir)
}

// Location begins the fetch, and neither asks nor waits.
func TestLocationOfProvider(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		start := time.Now()
		for range 3 {
			if l, err := f.Location(t.Context(), toy.At("1.0.0").ForPlatform(linux)); err != nil || l.Kept {
				t.Errorf("%v, %v", l, err)
			}
		}
		if l, err := f.Location(t.Context(), toy.At("1.0.0")); err != nil || l.Kept {
			t.Errorf("release: %v, %v", l, err)
		}
		equal(t, "time", time.Since(start), 0)
		time.Sleep(time.Minute)
		for _, v := range []modproxy.Ref{toy.At("1.0.0"), toy.At("1.0.0").ForPlatform(linux)} {
			if l, err := f.Location(t.Context(), v); err != nil || !l.Kept {
				t.Errorf("%v: %v, %v", v, l, err)
			}
		}
		equal(t, "zips asked for", f.next.asked("zip"), 1)
		equal(t, "releases asked for", f.next.asked("release"), 1)
	})
}

// However many zip archives come, releases and modules do not wait for them.
func TestZipsHaveTheirOwnTurns(t *testing.T) {
	f := newProviders(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.Registry = changed(t, f.Registry, func(c *cache.Config) { c.ZipTimeout = time.Hour })
		f.next.pieces = 20 * 60
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				p, err := f.Package(t.Context(), toy.At(fmt.Sprintf("2.%d.0", i)).ForPlatform(linux))
				if err != nil {
					t.Error(err)
					return
				}
				p.Close()
			})
		}
		synctest.Wait()
		start := time.Now()
		f.fetch(t, "1.0.0")
		equal(t, "a release takes", time.Since(start), 0)
		equal(t, "zips asked for", f.next.asked("zip"), 6) // three quarters of eight: they have one publisher
		all.Wait()
		equal(t, "zips asked for", f.next.asked("zip"), 20)
		if l, err := f.Location(t.Context(), toy.At("2.19.0").ForPlatform(linux)); err != nil || !l.Kept {
			t.Errorf("%v, %v", l, err)
		}
	})
}

// The document has the form of provider registries from every source, and stored packages stay listed as they were.
func TestVersionsOfProvider(t *testing.T) {
	const upstream = "1.0.0[5.0][linux_amd64 darwin_arm64] 1.1.0[6.0][]"
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		equal(t, "fresh", f.listed(t), upstream)
		f.restart(t)
		f.next.change(func() { f.next.document = "" })
		equal(t, "kept", f.listed(t), upstream)
		equal(t, "versions asked for", f.next.asked("versions"), 1)
		time.Sleep(time.Hour)
		equal(t, "stale", f.listed(t), upstream)
		f.fetch(t, "1.1.0")
		f.fetch(t, "1.0.0", linux)
		f.next.change(func() { f.next.document = `{"versions":[{"version":"2.0.0"}]}` })
		time.Sleep(time.Hour)
		equal(t, "delisted", f.listed(t), "2.0.0[][] 1.0.0[5.0][linux_amd64 darwin_arm64]")
		f.next.change(func() { f.next.document = `{"versions":[]}` })
		time.Sleep(time.Hour)
		equal(t, "gone", f.listed(t), "1.0.0[5.0][linux_amd64 darwin_arm64]")

		f.fetch(t, "3.0.0", darwin, linux)
		f.Next = nil
		time.Sleep(time.Hour)
		equal(t, "offline", f.listed(t), "1.0.0[5.0][linux_amd64] 3.0.0[][darwin_arm64 linux_amd64]")
		if _, err := f.Versions(t.Context(), modproxy.NewProvider(toy.Host, "acme", "other")); !errors.As(err, new(*modproxy.NotCached)) {
			t.Errorf("another: %v", err)
		}
	})
}

// A warning of the registry is passed on, also offline.
func TestWarningsOfProvider(t *testing.T) {
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.listed(t)
		f.fetch(t, "1.0.0", linux)
		for range 2 {
			v, err := f.Versions(t.Context(), toy)
			if err != nil || !strings.Contains(string(v.Document), `"warnings":["old"]`) {
				t.Errorf("%s, %v", v.Document, err)
			}
			f.restart(t)
			f.Next = nil
		}
	})
}

// With a release go its packages.
func TestDiscardProvider(t *testing.T) {
	f := newProviders(t, 100)
	synctest.Test(t, func(t *testing.T) {
		f.inMemory(t)
		f.fetch(t, "1.0.0", linux, darwin)
		f.fetch(t, "1.1.0", linux)
		count := func() (n int) {
			for _, err := range f.List(t.Context(), toy) {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			return n
		}
		equal(t, "kept", count(), 5)
		if list, err := f.Discard(t.Context(), toy.At("1.1.0").ForPlatform(linux)); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		if list, err := f.Discard(t.Context(), toy.At("1.0.0")); err != nil || len(list) != 3 {
			t.Errorf("%v, %v", list, err)
		}
		equal(t, "kept", count(), 1)
		if _, err := f.Discard(t.Context(), toy.At("1.0.0").ForPlatform(linux)); fmt.Sprint(err) != toy.String()+" 1.0.0 for linux_amd64: no package is cached" {
			t.Error(err)
		}
		if l, err := f.Location(t.Context(), toy.At("1.0.0").ForPlatform(linux)); err != nil || l.Kept {
			t.Errorf("%v, %v", l, err)
		}
	})
}
