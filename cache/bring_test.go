package cache_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
)

// bring keeps a package that was not fetched, and records it before.
func (f *fixture) bring(t *testing.T, version, content string) {
	t.Helper()
	v, p := vpc.At(version), []byte(content)
	rec := modproxy.Record{Ref: v, Sum: sumOf(p), Subdir: ".", Time: time.Now()}
	pack := &modproxy.Package{Body: modproxy.NewBody(body{bytes.NewReader(p)}, digestOf(p)), Digest: digestOf(p), Sum: rec.Sum, Size: int64(len(p))}
	if err := errors.Join(f.ledger.Add(t.Context(), rec), f.Keep(t.Context(), v, pack)); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) learn(t *testing.T, document string) {
	t.Helper()
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[` + document + `]}]}`))
	if err == nil {
		err = f.Learn(t.Context(), vpc, v.List)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A package that was brought is served offline, with the list entries that came along.
func TestBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.offline(t)
		if f.versions(t); f.IsStored(t.Context(), vpc.At("1.0.0"), sumOf([]byte("one"))) {
			t.Error("held before")
		}
		f.bring(t, "1.0.0", "one")
		f.learn(t, `{"version":"v1.0.0","root":{}},{"version":"3.0.0"}`)
		v, err := f.Versions(t.Context(), vpc)
		if err != nil || string(v.Document) != `{"modules":[{"versions":[{"version":"v1.0.0","root":{}}]}]}` || v.Time.IsZero() {
			t.Errorf("%+v, %v", v, err)
		}
		f.bring(t, "2.0.0", "two")
		f.learn(t, `{"version":"v1.0.0","other":{}},{"version":"2.0.0"}`)
		equal(t, "offline", f.versions(t), "1.0.0 2.0.0 hit stale")
		equal(t, "read", string(f.fetch(t, "2.0.0")), "two")
		if !f.IsStored(t.Context(), vpc.At("2.0.0"), sumOf([]byte("two"))) || f.IsStored(t.Context(), vpc.At("2.0.0"), sumOf([]byte("one"))) {
			t.Error("Holds")
		}
		f.storage.Replace(digestOf([]byte("two")), []byte("cut"))
		if f.IsStored(t.Context(), vpc.At("2.0.0"), sumOf([]byte("two"))) {
			t.Error("it holds what is damaged")
		}
	})
}

// With a package that was brought, upstream still receives requests, and its list stays as it is.
func TestBroughtOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.bring(t, "0.9.0", "brought")
		f.learn(t, `{"version":"0.9.0"}`)
		equal(t, "asked at first", f.versions(t), "1.0.0 1.1.0 0.9.0")
		asked := f.next.asked("versions")
		time.Sleep(time.Minute)
		f.bring(t, "0.8.0", "brought, too")
		f.learn(t, `{"version":"0.8.0"}`)
		equal(t, "from what is kept", f.versions(t), "1.0.0 1.1.0 0.9.0 0.8.0 hit")
		equal(t, "asked", f.next.asked("versions"), asked)
		time.Sleep(4*time.Minute + time.Second) // five since it was asked
		equal(t, "asked again", f.versions(t), "1.0.0 1.1.0 0.8.0 0.9.0")
		equal(t, "dropped", f.events.count(cache.VersionDropped), 0) // it never had them
	})
}

func TestRoom(t *testing.T) {
	f := newFixture(t)
	f.bring(t, "1.0.0", "four")
	if err := f.Room(t.Context(), 1<<60); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	bounded := store.New(store.Config{Records: f.Store.Records, Blobs: f.Store.Blobs, Quarantine: f.Store.Quarantine, MaxSize: 10})
	defer bounded.Close(t.Context())
	if err := bounded.Room(t.Context(), 6, true); err != nil {
		t.Errorf("as much as there is: %v", err)
	}
	if err := bounded.Room(t.Context(), 7, true); !errors.As(err, new(*modproxy.NoSpace)) {
		t.Errorf("one byte more: %v", err)
	}
	if err := bounded.Room(t.Context(), 10, false); err != nil {
		t.Errorf("if all else may go: %v", err)
	}
	if err := bounded.Room(t.Context(), 11, false); !errors.As(err, new(*modproxy.NoSpace)) {
		t.Errorf("more than may ever be: %v", err)
	}
}
