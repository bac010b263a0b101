package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// packages is the kind of records with a keeper here. Their values are the size and the sum of their only blob.
const packages = "package"

// keeper contains the sums that count, by key.
type keeper map[string]string

func sumOf(blob io.Reader) (string, error) {
	data, err := io.ReadAll(blob)
	sum := sha256.Sum256(append([]byte("package"), data...))
	return hex.EncodeToString(sum[:4]), err
}

func parse(r store.Record) (size int64, sum string) {
	fmt.Sscan(string(r.Value), &size, &sum)
	return size, sum
}

func (k keeper) Verify(_ context.Context, r store.Record) ([]int64, error) {
	size, sum := parse(r)
	switch counts := k[r.Key]; {
	case counts == "":
		return nil, fmt.Errorf("%w: unknown", store.ErrDamaged)
	case counts == "closed":
		return nil, io.ErrClosedPipe
	case counts != sum:
		return nil, modproxy.ErrChanged
	}
	return []int64{size}, nil
}

func (k keeper) VerifyData(_ context.Context, r store.Record, _ modproxy.Digest, blob io.Reader) error {
	_, want := parse(r)
	if sum, err := sumOf(blob); err != nil || sum != want {
		return fmt.Errorf("the content is %s, %w", sum, err)
	}
	return nil
}

func (k keeper) Rebuild(context.Context) (store.Rebuilder, error) { return k.rebuild, nil }

func (k keeper) rebuild(_ context.Context, d modproxy.Digest, size int64, blob io.Reader) (list []store.Record, err error) {
	sum, err := sumOf(blob)
	for key, counts := range k {
		if counts == sum {
			list = append(list, record(key, size, sum, d))
		}
	}
	return list, err
}

func record(key string, size int64, sum string, d modproxy.Digest) store.Record {
	return store.Record{
		Ref: store.Ref{Kind: packages, Key: key}, Value: fmt.Append(nil, size, " ", sum), Needs: []modproxy.Digest{d},
	}
}

// world is a storage with a keeper, and the damages that Verify has found.
type world struct {
	*storetest.Memory
	*testing.T
	keeper keeper
	found  []string
}

func newWorld(t *testing.T) *world {
	return &world{Memory: &storetest.Memory{}, T: t, keeper: keeper{}}
}

func (w *world) store() *store.Store {
	return store.New(store.Config{
		Records: w.Memory.Records(), Blobs: w.Memory.Blobs(), Quarantine: w.Memory, Kinds: map[store.Kind]store.Codec{packages: w.keeper, "lists": nil},
	})
}

// keep stores a package of 1000 bytes, and its record.
func (w *world) keep(key string, seed byte) modproxy.Digest {
	w.Helper()
	data, d := storetest.Bytes(1000, seed)
	w.keeper[key], _ = sumOf(bytes.NewReader(data))
	w.put(d, data, record(key, 1000, w.keeper[key], d))
	return d
}

func (w *world) put(d modproxy.Digest, data []byte, r store.Record) {
	w.Helper()
	err := w.Memory.Blobs().Put(w.Context(), d, bytes.NewReader(data))
	if err == nil {
		_, err = w.Memory.Records().Put(w.Context(), r)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// check returns c with a Found that appends to w.found.
func (w *world) check(c store.Check) store.Check {
	w.found = nil
	c.Found = func(d store.Damage) {
		s := fmt.Sprint(d.Kind, " ", d.Ref.Key)
		if d.Repaired {
			s += " repaired"
		}
		w.found = append(w.found, s)
	}
	return c
}

func (w *world) verify(c store.Check, want ...string) store.Verified {
	w.Helper()
	out, err := w.store().Verify(w.Context(), w.check(c))
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(w.found)
	if !slices.Equal(w.found, want) {
		w.Errorf("%+v: found %q, want %q", c, w.found, want)
	}
	if out.Damage != len(want) || out.Repaired != strings.Count(strings.Join(want, " "), "repaired") {
		w.Errorf("%+v: %+v", c, out)
	}
	return out
}

func TestVerifyFindsNothing(t *testing.T) {
	w := newWorld(t)
	for i := range byte(20) {
		w.keep(fmt.Sprint(i), i)
	}
	w.keep("as 1", 1) // the same bytes
	data, d := storetest.Bytes(500, 30)
	w.put(d, data, store.Record{Ref: store.Ref{Kind: "list", Key: "a"}})
	w.keeper["2"] = "another"
	w.put(d, data, store.Record{Ref: store.Ref{Kind: "unknown", Key: "a"}, Needs: []modproxy.Digest{w.keep("x", 5)}})
	for _, data := range []bool{false, true} {
		last := store.Verified{}
		out := w.verify(store.Check{Data: data, Progress: func(v store.Verified) { last = v }})
		want := store.Verified{
			Records: 24, Kept: store.Amount{Blobs: 20, Bytes: 20_000}, Superseded: 1, Orphans: store.Amount{Blobs: 1, Bytes: 500}, Total: 20_500,
		}
		if last != out {
			t.Errorf("the last progress was %+v, and the end %+v", last, out)
		}
		if data {
			want.Read = 20_000
		}
		if out.Seconds = 0; out != want {
			t.Errorf("%+v, want %+v", out, want)
		}
	}
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		damage       func(w *world)
		quick, whole []string // damages found without and with Data
		left         []string // after a repair
		aside        int
	}{
		"record": {
			func(w *world) { w.Damage(store.Ref{Kind: packages, Key: "1"}) },
			[]string{"record_damaged 1 repaired"}, nil, nil, 0,
		},
		"bytes": {
			func(w *world) {
				data, _ := storetest.Bytes(1000, 7)
				_, d := storetest.Bytes(1000, 1)
				w.Replace(d, data)
			}, nil, []string{"package_damaged 1 repaired"}, nil, 1,
		},
		"cut short": {
			func(w *world) {
				data, d := storetest.Bytes(1000, 1)
				w.Replace(d, data[:999])
			}, []string{"package_damaged 1 repaired"}, nil, nil, 1,
		},
		"missing": {
			func(w *world) {
				_, d := storetest.Bytes(1000, 1)
				w.Replace(d, nil)
			}, []string{"package_missing 1 repaired"}, nil, nil, 0,
		},
		"other content": {
			func(w *world) {
				data, d := storetest.Bytes(10, 3)
				w.keeper["3"] = "sum"
				w.put(d, data, record("3", 10, "sum", d))
			}, nil, []string{"package_damaged 3 repaired"}, nil, 0,
		},
		"other size": {
			func(w *world) {
				data, d := storetest.Bytes(10, 3)
				w.keeper["3"] = "sum"
				w.put(d, data, record("3", 11, "sum", d))
			}, []string{"package_damaged 3 repaired"}, nil, nil, 0,
		},
		"not recorded": {
			func(w *world) { delete(w.keeper, "1") },
			[]string{"pin_differs 1"}, nil, []string{"pin_differs 1"}, 0,
		},
		"not recorded, and missing": {
			func(w *world) {
				delete(w.keeper, "1")
				_, d := storetest.Bytes(1000, 1)
				w.Replace(d, nil)
			}, []string{"package_missing 1 repaired", "pin_differs 1 repaired"}, nil, nil, 0,
		},
		"not known": {
			func(w *world) { w.keeper["1"] = "closed" },
			[]string{"unreadable 1"}, nil, []string{"unreadable 1"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.keep("1", 1)
			w.keep("2", 2)
			c.damage(w)
			whole := slices.Concat(c.quick, c.whole)
			unrepaired := func(list []string) (all []string) {
				for _, s := range list {
					all = append(all, strings.TrimSuffix(s, " repaired"))
				}
				return all
			}
			w.verify(store.Check{}, unrepaired(c.quick)...)
			w.verify(store.Check{Data: true}, unrepaired(whole)...)
			w.verify(store.Check{Data: true, Repair: true}, whole...)
			w.verify(store.Check{Data: true}, c.left...)
			if n := len(w.Evidence()); n != c.aside {
				t.Errorf("%d were set aside, want %d", n, c.aside)
			}
			if _, err := w.Memory.Records().Get(t.Context(), store.Ref{Kind: packages, Key: "2"}); err != nil {
				t.Errorf("the record that is right: %v", err)
			}
		})
	}
}

// An index may be older than the blobs beside it.
func TestVerifyMakesRecords(t *testing.T) {
	w := newWorld(t)
	data, d := storetest.Bytes(1000, 1)
	w.keeper["1"], _ = sumOf(bytes.NewReader(data))
	w.put(d, data, store.Record{Ref: store.Ref{Kind: "list", Key: "a"}})
	for _, c := range []struct {
		store.Check
		orphans int
	}{{store.Check{Data: true}, 1}, {store.Check{Repair: true}, 1}, {store.Check{Data: true, Repair: true}, 0}, {store.Check{}, 0}} {
		if out := w.verify(c.Check); out.Orphans.Blobs != c.orphans || out.Kept.Blobs != 1-c.orphans {
			t.Errorf("%+v: %+v", c.Check, out)
		}
	}
}

// Unreadable blobs and records stay.
func TestVerifyUnreadable(t *testing.T) {
	w := newWorld(t)
	w.keep("1", 1)
	s := w.store()
	s.Blobs = unreadable{s.Blobs}
	out, err := s.Verify(t.Context(), w.check(store.Check{Data: true, Repair: true}))
	if err != nil || !slices.Equal(w.found, []string{"unreadable 1"}) || out.Repaired != 0 || len(w.Evidence()) != 0 {
		t.Errorf("%+v, %v, found %q", out, err, w.found)
	}
}

type anyBlobs = store.Blobs // whose method has the same name

type unreadable struct{ anyBlobs }

type unreadableBlob struct{ store.Blob }

func (b unreadable) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	blob, err := b.anyBlobs.Open(ctx, d)
	return unreadableBlob{blob}, err
}

func (unreadableBlob) Read([]byte) (int, error) { return 0, errors.New("bad sector") }

func TestVerifyEnds(t *testing.T) {
	w := newWorld(t)
	for i := range byte(20) {
		w.keep(fmt.Sprint(i), i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := w.check(store.Check{Data: true})
	c.Progress = func(store.Verified) { cancel() }
	if _, err := w.store().Verify(ctx, c); !errors.Is(err, context.Canceled) || len(w.found) > 0 {
		t.Errorf("Verify = %v, found %q", err, w.found)
	}
}
