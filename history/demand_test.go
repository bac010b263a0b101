package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

func asker(name string, groups ...string) modproxy.Client {
	return modproxy.Client{Name: name, DisplayName: name, Groups: groups}
}

// requested returns the recorded requests.
func requested(t testing.TB, r *history.Demand) (list []history.Request) {
	t.Helper()
	for request, err := range r.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, request)
	}
	return list
}

func write(t testing.TB, r *history.Demand) {
	t.Helper()
	if err := r.Write(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// held is a store whose Put waits until release is closed.
type held struct {
	store.Records
	putting chan struct{}
	release chan struct{}
}

func (h held) Put(ctx context.Context, rec store.Record) (uint64, error) {
	h.putting <- struct{}{}
	<-h.release
	return h.Records.Put(ctx, rec)
}

// Write returns after all earlier requests are recorded, including those that another write is recording.
func TestWriteWaits(t *testing.T) {
	records := held{new(storetest.Memory).Records(), make(chan struct{}), make(chan struct{})}
	r := history.NewDemand(records, history.PendingKind, nil)
	r.Add(vpc.At("1.0.0"), asker("a"))
	var writes sync.WaitGroup
	writes.Go(func() { write(t, r) })
	<-records.putting
	time.AfterFunc(50*time.Millisecond, func() { close(records.release) })
	write(t, r)
	equal(t, "recorded", len(requested(t, r)), 1)
	writes.Wait()
}

// Requests are recorded every second, and at the end: the client, the first and last time, and the number.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := history.NewDemand(new(storetest.Memory).Records(), history.PendingKind, nil)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { r.Run(ctx) })
		began := time.Now().UTC()
		r.Add(vpc.At("1.0.0"), asker("a", "dev"))
		r.Add(vpc.At("1.0.0"), asker("b"))
		equal(t, "before they are written", len(requested(t, r)), 0)
		time.Sleep(1500 * time.Millisecond)
		odd := vpc
		odd.Namespace = "ACME"
		r.Add(odd.At("1.0.0+modproxy.derived.x"), asker("a", "infra"))
		r.Add(vpc.At("0.9.0"), asker(strings.Repeat("x", 1000)))
		stop()
		run.Wait()
		list := requested(t, r)
		if len(list) != 2 || list[0].Version != "0.9.0" || len(list[0].Askers) != 0 {
			t.Fatalf("recorded: %+v", list)
		}
		got := list[1]
		if got.Ref != vpc.At("1.0.0") || got.Count != 3 || fmt.Sprint(got.Askers, got.Groups) != "[a b] [infra]" ||
			!got.First.Equal(began) || !got.Last.Equal(began.Add(1500*time.Millisecond)) {
			t.Errorf("recorded: %+v; it began %v", got, began)
		}
	})
}

// Requests that cannot be recorded stay in memory, and are recorded later.
func TestRequestsFail(t *testing.T) {
	var m storetest.Memory
	r := history.NewDemand(m.Records(), history.PendingKind, nil)
	r.Add(vpc.At("1.0.0"), asker("a"))
	m.Fail(errors.New("no disk"))
	for range 3 {
		if err := r.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "acme/vpc/aws 1.0.0: unavailable: no disk") {
			t.Error(err)
		}
		for i := range 2000 { // memory holds no more than a burst
			r.Add(vpc.At(fmt.Sprintf("2.0.%d", i)), asker("a"))
		}
		r.Add(vpc.At("1.0.0"), asker("b"))
	}
	m.Fail(nil)
	write(t, r)
	list := requested(t, r)
	if len(list) != 1024 || list[0].Count != 4 || len(list[0].Askers) != 2 {
		t.Errorf("%d recorded, the first %+v", len(list), list[0])
	}
	write(t, r)
	equal(t, "written twice", requested(t, r)[0].Count, 4)
}

// Excess versions are dropped. The error is reported once until all waiting requests are recorded.
func TestRequestsTooMany(t *testing.T) {
	var told []string
	r := history.NewDemand(new(storetest.Memory).Records(), history.MissingKind, func(err error) { told = append(told, err.Error()) })
	see := func(n int) {
		for i := range n {
			r.Add(vpc.At(fmt.Sprintf("%d.0.0", i)), asker("a"))
		}
	}
	see(1024)
	equal(t, "told of 1024", len(told), 0)
	see(1500)
	equal(t, "told", strings.Join(told, "\n"), "more than 1024 versions wait to be recorded: registry.example.com/acme/vpc/aws 1024.0.0 "+
		"and others are not recorded until they are requested again")
	write(t, r)
	equal(t, "recorded", len(requested(t, r)), 1024)
	see(1500)
	equal(t, "told again", len(told), 2)
}

// failing is a store that cannot be changed while during returns an error. It calls during at each try.
type failing struct {
	store.Records
	during func() error
}

func (f failing) Put(ctx context.Context, rec store.Record) (uint64, error) {
	if err := f.during(); err != nil {
		return 0, err
	}
	return f.Records.Put(ctx, rec)
}

// Failures to record need no more memory, for any requests in the meantime.
func TestRequestsFailForLong(t *testing.T) {
	var m storetest.Memory
	var r *history.Demand
	n, full := 0, true
	r = history.NewDemand(failing{m.Records(), func() error {
		if !full {
			return nil
		}
		for range 10 {
			r.Add(vpc.At(fmt.Sprintf("%d.0.0", n)), asker("a"))
			n++
		}
		return errors.New("no disk")
	}}, history.PendingKind, nil)
	r.Add(vpc.At("1.0.0"), asker("a"))
	for range 20 {
		if err := r.Write(t.Context()); err == nil {
			t.Fatal("no error")
		}
	}
	full = false
	for range 20 {
		write(t, r)
	}
	if got := len(requested(t, r)); n < 10_000 || got != 1024 {
		t.Errorf("%d of %d versions were kept", got, n)
	}
}

// A damaged record is replaced. Other records are still listed.
func TestRequestsDamaged(t *testing.T) {
	var m storetest.Memory
	r := history.NewDemand(m.Records(), history.PendingKind, nil)
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		r.Add(vpc.At(v), asker("a"))
	}
	write(t, r)
	m.Damage(store.Ref{Kind: history.PendingKind, Key: vpc.At("1.0.0").String()})
	ref := store.Ref{Kind: history.PendingKind, Key: vpc.At("2.0.0").String()}
	rec, err := m.Records().Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"", "{", "{}", `{"Namespace":"../x","Version":"1.0.0"}`, `[]`} {
		rec.Value = []byte(value)
		if rec.Revision, err = m.Records().Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if list := requested(t, r); len(list) != 1 || list[0].Version != "3.0.0" {
			t.Errorf("%q is listed: %+v", value, list)
		}
	}
	r.Add(vpc.At("1.0.0"), asker("b"))
	r.Add(vpc.At("2.0.0"), asker("b"))
	write(t, r)
	for _, request := range requested(t, r) {
		equal(t, "count of "+request.Version, request.Count, 1)
	}
	equal(t, "recorded", len(requested(t, r)), 3)
}

// If there are too many versions, those with the oldest last request are removed.
func TestRequestsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := history.NewDemand(new(storetest.Memory).Records(), history.PendingKind, nil)
		most := 0
		for i := range 60 {
			for j := range 250 {
				r.Add(vpc.At(fmt.Sprintf("%d.%d.0", i, j)), asker("a"))
			}
			r.Add(vpc.At("1000.0.0"), asker("b"))
			time.Sleep(time.Second)
			write(t, r)
			if i%4 == 3 && i > 36 {
				most = max(most, len(requested(t, r)))
			}
		}
		if most > 10_000 {
			t.Errorf("%d were recorded at a time", most)
		}
		left := map[string]int{}
		for _, request := range requested(t, r) {
			left[request.Version] = request.Count
		}
		if left["1000.0.0"] != 60 || left["59.249.0"] != 1 || left["0.0.0"] != 0 || len(left) < 8000 {
			t.Errorf("%d are left; that which was asked for all the time %d times", len(left), left["1000.0.0"])
		}
	})
}

// Two processes with one store count every request.
func TestRequestsOfTwo(t *testing.T) {
	d, err := disk.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const rounds = 40
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			r := history.NewDemand(d.Records(), history.PendingKind, nil)
			for i := range rounds {
				r.Add(vpc.At("1.0.0"), asker(name))
				r.Add(vpc.At(fmt.Sprint(i%4, ".0.0")), asker(name))
				if err := r.Write(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	count := 0
	for _, request := range requested(t, history.NewDemand(d.Records(), history.PendingKind, nil)) {
		count += request.Count
		equal(t, "askers of "+request.Version, len(request.Askers), 2)
	}
	equal(t, "counted", count, 2*2*rounds)
}

// A request is cheap, also while others are recorded.
func BenchmarkRequests(b *testing.B) {
	d, err := disk.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	r := history.NewDemand(d.Records(), history.PendingKind, nil)
	ctx, stop := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { r.Run(ctx) })
	a := asker("token ci (ab)")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Add(modproxy.Ref{Address: vpc, Version: versionsOfMany[i%len(versionsOfMany)]}, a)
	}
	stop()
	run.Wait()
}

var versionsOfMany = func() (list []string) {
	for i := range 1000 {
		list = append(list, fmt.Sprintf("1.%d.0", i))
	}
	return list
}()

// Recording the requests of a second takes much less than a second.
func BenchmarkRequestsWrite(b *testing.B) {
	d, err := disk.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	r := history.NewDemand(d.Records(), history.PendingKind, nil)
	for i := 0; b.Loop(); i++ {
		for j := range 32 {
			r.Add(vpc.At(fmt.Sprintf("%d.%d.0", i, j)), asker("a"))
		}
		write(b, r)
	}
}

// TestStoredForm checks that stored requests keep their form: a variant is part of the text of the version.
func TestStoredForm(t *testing.T) {
	const stored = `{"Host":"registry.example.com","Namespace":"acme","Name":"toy","System":"","Version":"1.0.0+modproxy.platform.linux-amd64",` +
		`"first":"2026-01-02T03:04:05Z","last":"2026-01-02T03:04:05Z","count":1,"askers":null,"groups":null}`
	var r history.Request
	if err := json.Unmarshal([]byte(stored), &r); err != nil {
		t.Fatal(err)
	}
	want := modproxy.NewProvider("registry.example.com", "acme", "toy").At("1.0.0").ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"})
	if r.Ref != want {
		t.Errorf("read: %#v", r.Ref)
	}
	if text, err := json.Marshal(r); err != nil || string(text) != stored {
		t.Errorf("written: %s, %v", text, err)
	}
}
