package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// fixture is a Store with a storage in memory, and a record of its events.
type fixture struct {
	*store.Store
	storage *storetest.Memory
	during  func(key string) // called in the middle of writing a blob

	mu     sync.Mutex
	events []store.Event
	reads  int // of contents
}

// newFixture returns a Store without a bound that holds no blob in memory.
func newFixture(t *testing.T) *fixture {
	f := &fixture{storage: &storetest.Memory{}}
	f.Store = store.New(store.Config{Memory: -1})
	f.restart(t)
	return f
}

// newBounded returns a fixture whose blobs have at most max bytes together.
func newBounded(t *testing.T, max int64) *fixture {
	f := newFixture(t)
	f.change(t, func(s *store.Config) { s.MaxSize = max })
	return f
}

// restart makes a new Store with the same storage.
func (f *fixture) restart(t *testing.T) { f.change(t, func(*store.Config) {}) }

// change is like restart, with other fields.
func (f *fixture) change(t *testing.T, change func(*store.Config)) {
	t.Helper()
	f.close(t)
	old := f.Store
	config := store.Config{
		Records: f.storage.Records(), Blobs: f.storage.Blobs(), Quarantine: f.storage, Kinds: old.Kinds, Pins: old.Pins,
		MaxSize: old.MaxSize, Memory: old.Memory,
		Observe: func(e store.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
	}
	change(&config)
	f.Store = store.New(config)
	t.Cleanup(func() { f.close(t) })
}

func (f *fixture) close(t *testing.T) {
	if f.Blobs == nil {
		return
	}
	if err := f.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func (f *fixture) count(kind store.EventKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// dataOf returns the bytes that the record under key needs. Their number is the first number in key. Keys that differ
// before a plus sign have different bytes.
func dataOf(key string) ([]byte, modproxy.Digest) {
	name, _, _ := strings.Cut(key, "+")
	var size int
	fmt.Sscanf(name, "%d.", &size)
	data := append(make([]byte, max(0, size-len(name))), name...)
	return data, sha256.Sum256(data)
}

func random(n int, seed byte) ([]byte, modproxy.Digest) {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b, sha256.Sum256(b)
}

func refOf(key string) store.Ref { return store.Ref{Kind: "thing", Key: key} }

// put stores the record and the blob of key, in place of any earlier ones.
func (f *fixture) put(ctx context.Context, key string) error {
	r, err := f.Records.Get(ctx, refOf(key))
	if errors.Is(err, fs.ErrNotExist) {
		r.Ref = refOf(key)
	} else if err != nil {
		return err
	}
	data, d := dataOf(key)
	r.Needs = []modproxy.Digest{d}
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	_, err = f.Keep(ctx, r, store.Content{Digest: d, Size: int64(len(data)), Reader: f.body(key, data)})
	return err
}

// body returns a reader of data that calls during in the middle.
func (f *fixture) body(key string, data []byte) io.Reader {
	half := len(data) / 2
	return io.MultiReader(bytes.NewReader(data[:half]), readerFunc(func([]byte) (int, error) {
		if f.during != nil {
			f.during(key)
		}
		return 0, io.EOF
	}), bytes.NewReader(data[half:]))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// open opens the blob of key. If it does not exist, open stores it first.
func (f *fixture) open(ctx context.Context, key string) (modproxy.Body, error) {
	data, d := dataOf(key)
	_, err := f.Records.Get(ctx, refOf(key))
	if err == nil {
		r, err := f.Open(ctx, d, int64(len(data)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrDamaged) {
			return r, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := f.put(ctx, key); err != nil {
		return nil, err
	}
	return f.Open(ctx, d, int64(len(data)))
}

// get reads the blob of key.
func (f *fixture) get(ctx context.Context, key string) error {
	r, err := f.open(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if want, _ := dataOf(key); err == nil && !bytes.Equal(data, want) {
		return errors.New("other bytes")
	}
	return err
}

func (f *fixture) mustGet(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := f.get(t.Context(), key); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
}

// there returns the keys of the records whose blobs exist.
func (f *fixture) there(t *testing.T) string {
	t.Helper()
	var list []string
	for r, err := range f.Records.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Needs, func(d modproxy.Digest) bool { _, err := f.Blobs.Stat(t.Context(), d); return err != nil }) {
			list = append(list, r.Key)
		}
	}
	return strings.Join(list, " ")
}

// settled checks the usage when no work is in progress.
func (f *fixture) settled(t *testing.T, want int64) {
	t.Helper()
	synctest.Wait()
	if kept, reserved := f.Usage(); kept != want || reserved != 0 {
		t.Errorf("kept %d, reserved %d; want %d and none", kept, reserved, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
