package history_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/observe"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// found is a registry that has every version but 6.6.6.
type found struct{ modproxy.Registry }

func (found) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if v.Version == "6.6.6" {
		return modproxy.Location{}, modproxy.ErrNotFound
	}
	return modproxy.Location{URL: "https://git.example.com/vpc.tar.gz"}, nil
}

// counting is a registry whose locations are counted.
type counting struct {
	*observe.Registry
	*history.Downloads
}

func newCounting(records store.Records, observed func(error)) counting {
	d := history.NewDownloads(records, observed)
	return counting{&observe.Registry{Next: found{}, Observers: []observe.Observer{d}}, d}
}

// counted returns the downloads of m as text.
func counted(t testing.TB, r *history.Downloads, m modproxy.Address) string {
	t.Helper()
	d, err := r.Downloads(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Week, d.Month, d.Year, d.Total, d.Versions)
}

// recorded returns the recorded downloads of m as text.
func recorded(t testing.TB, records store.Records, m modproxy.Address) string {
	t.Helper()
	return counted(t, history.NewDownloads(records, nil), m)
}

// run runs r until end is called.
func run(r counting) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

func ask(r counting, versions ...modproxy.Ref) {
	for _, v := range versions {
		r.Location(context.Background(), v)
	}
}

// Locations are counted at once, and recorded within ten seconds and at the end. Errors and providers do not count.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := new(storetest.Memory).Records()
		one, other := newCounting(records, nil), newCounting(records, nil)
		equal(t, "at first", counted(t, one.Downloads, vpc), "0 0 0 0 map[]")
		end, endOther := run(one), run(other)
		spelled, provider := vpc, modproxy.Address{Host: vpc.Host, Namespace: "acme", Name: "cloud"}
		spelled.Namespace = "Acme"
		ask(one, vpc.At("1.0.0"), spelled.At("1.0.0"), vpc.At("2.0.0"), vpc.At("6.6.6"), provider.At("1.0.0"))
		ask(other, vpc.At("2.0.0"))
		equal(t, "at once", counted(t, one.Downloads, vpc), "3 3 3 3 map[1.0.0:2 2.0.0:1]")
		equal(t, "recorded at once", recorded(t, records, vpc), "0 0 0 0 map[]")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		equal(t, "of both", recorded(t, records, vpc), "4 4 4 4 map[1.0.0:2 2.0.0:2]")
		equal(t, "with what was recorded", counted(t, one.Downloads, spelled), "4 4 4 4 map[1.0.0:2 2.0.0:2]")
		equal(t, "of a provider", recorded(t, records, provider), "0 0 0 0 map[]")
		ask(one, vpc.At("3.0.0"))
		ask(other, vpc.At("3.0.0"))
		endOther()
		end()
		equal(t, "at the end", recorded(t, records, vpc), "6 6 6 6 map[1.0.0:2 2.0.0:2 3.0.0:2]")
	})
}

// Days pass.
func TestCountedByDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := new(storetest.Memory).Records()
		r := newCounting(records, nil)
		asked := func() {
			ask(r, vpc.At("1.0.0"))
			run(r)()
		}
		want := func(days int, want string) {
			t.Helper()
			time.Sleep(time.Duration(days) * 24 * time.Hour)
			equal(t, fmt.Sprintf("after %d days", days), counted(t, r.Downloads, vpc), want)
		}
		asked()
		want(6, "1 1 1 1 map[1.0.0:1]")
		want(1, "0 1 1 1 map[1.0.0:1]")
		asked()
		want(22, "0 2 2 2 map[1.0.0:2]")
		want(1, "0 1 2 2 map[1.0.0:2]")
		want(334, "0 0 2 2 map[1.0.0:2]")
		want(1, "0 0 1 2 map[1.0.0:2]")
		asked()
		want(7, "0 1 1 3 map[1.0.0:3]")
		asked()
		rec, err := records.Get(t.Context(), store.Ref{Kind: history.DownloadsKind, Key: vpc.String()})
		const days = `"2000-01-08":1,"2000-12-31":1,"2001-01-07":1`
		equal(t, "recorded", string(rec.Value), `{"total":4,"days":{`+days+`},"versions":{"1.0.0":4}}`)
		equal(t, "error", err, nil)
	})
}

// flaky is a store whose Put fails, before or after it puts.
type flaky struct {
	store.Records
	put bool
	err error
}

func (f *flaky) Put(ctx context.Context, r store.Record) (uint64, error) {
	if f.err != nil && !f.put {
		return 0, f.err
	}
	revision, err := f.Records.Put(ctx, r)
	return revision, errors.Join(err, f.err)
}

// Counts that could not be recorded are recorded later, unless they may have been recorded.
func TestCountedOnce(t *testing.T) {
	for _, put := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			full := &flaky{Records: new(storetest.Memory).Records()}
			var observed []error
			r := newCounting(full, func(err error) { observed = append(observed, err) })
			end := run(r)
			ask(r, vpc.At("1.0.0"))
			time.Sleep(11 * time.Second)
			synctest.Wait()
			full.put, full.err = put, fs.ErrPermission
			ask(r, vpc.At("1.0.0"))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			equal(t, "while it fails", counted(t, r.Downloads, vpc), "2 2 2 2 map[1.0.0:2]")
			if len(observed) != 1 || !errors.Is(observed[0], fs.ErrPermission) {
				t.Errorf("told %v", observed)
			}
			full.err = nil
			end()
			equal(t, "afterwards", recorded(t, full, vpc), "2 2 2 2 map[1.0.0:2]")
		})
	}
}

// Processes that count at the same time add up.
func TestCountedByProcesses(t *testing.T) {
	d, err := disk.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var all sync.WaitGroup
	const processes, times = 4, 100
	for range processes {
		all.Go(func() {
			for range 5 {
				r := newCounting(d.Records(), nil)
				end := run(r)
				var clients sync.WaitGroup
				for range 2 {
					clients.Go(func() {
						for range times {
							ask(r, vpc.At("1.0.0"))
						}
					})
				}
				clients.Wait()
				end()
			}
		})
	}
	all.Wait()
	equal(t, "all", recorded(t, d.Records(), vpc), "4000 4000 4000 4000 map[1.0.0:4000]")
}

// Downloads beyond the limits are not counted. A damaged record starts again at zero.
func TestCountIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(storetest.Memory)
		r := newCounting(m.Records(), nil)
		for i := range 5000 {
			ask(r, vpc.At(fmt.Sprintf("1.0.%d", i)))
		}
		ask(r, vpc.At("1.0.0"))
		run(r)()
		c, err := r.Downloads.Downloads(t.Context(), vpc)
		if err != nil || c.Total != 4097 || len(c.Versions) != 1000 {
			t.Errorf("%d of %d versions, %v", c.Total, len(c.Versions), err)
		}
		other := vpc
		other.Name = "other"
		ask(r, other.At("1.0.0"))
		ref := store.Ref{Kind: history.DownloadsKind, Key: vpc.String()}
		m.Damage(ref)
		ask(r, vpc.At("1.0.0"))
		run(r)()
		equal(t, "damaged", recorded(t, m.Records(), vpc), "1 1 1 1 map[1.0.0:1]")
		equal(t, "other", recorded(t, m.Records(), other), "1 1 1 1 map[1.0.0:1]")
		rec, _ := m.Records().Get(t.Context(), ref)
		rec.Value = []byte("null and void")
		m.Records().Put(t.Context(), rec)
		ask(r, vpc.At("1.0.0"))
		run(r)()
		equal(t, "not read", recorded(t, m.Records(), vpc), "1 1 1 1 map[1.0.0:1]")
	})
}

// Counting a version again allocates no memory.
func TestCountAllocates(t *testing.T) {
	r := newCounting(new(storetest.Memory).Records(), nil)
	if n := testing.AllocsPerRun(1000, func() { r.Location(t.Context(), vpc.At("1.0.0")) }); n > 0 {
		t.Errorf("%v allocations for each download", n)
	}
}

func BenchmarkLocation(b *testing.B) {
	r := newCounting(new(storetest.Memory).Records(), nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Location(b.Context(), vpc.At("1.0.0"))
		}
	})
}
