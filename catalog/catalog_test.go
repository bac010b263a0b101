package catalog_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/catalog"
)

var (
	network = modproxy.Address{Host: "registry.example.com", Namespace: "Acme", Name: "network", System: "aws"}
	seenAt  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// site is the environment of a Catalog, including a registry. Each test sets its fields.
type site struct {
	versions map[modproxy.Address][]string
	refused  map[modproxy.Ref]bool
	held     map[modproxy.Ref]bool
	sources  map[modproxy.Ref]string

	late      time.Duration // delay of the registry
	err       error         // returned instead of the registry's answer
	said      *modproxy.Details
	each      func(modproxy.Ref) (*modproxy.Details, error) // replaces said
	undated   error                                         // of a registry without a history
	page      *modproxy.Page
	bad       error         // from reading a package
	reading   time.Duration // duration of reading a package
	readme    string        // of every package; empty: "kept"
	mu        sync.Mutex
	firstSeen []modproxy.FirstSeen // by which versions were judged
	described int                  // packages
	listed    int                  // number of lists of cached modules
}

func newCatalog(s *site) *catalog.Catalog {
	return catalog.New(catalog.Config{Next: s, Registry: lister{s}, Known: lister{s}, Packages: s, Ledger: s, FirstSeen: s, Rules: s, Reader: s})
}

type lister struct{ *site }

func (s lister) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	var entries []string
	for _, v := range s.versions[m] {
		if !s.refused[m.At(v)] {
			entries = append(entries, fmt.Sprintf(`{"version":%q}`, v))
		}
	}
	return modproxy.ParseVersions([]byte(`{"modules":[{"versions":[` + strings.Join(entries, ",") + `]}]}`))
}

// says waits as the cache does: a request continues after its client has gone.
func (s *site) says(ctx context.Context) error {
	select {
	case <-time.After(s.late):
		return s.err
	case <-ctx.Done():
		return &modproxy.RetryLater{After: time.Now(), Err: ctx.Err()}
	}
}

func (s *site) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	if s.each != nil {
		return s.each(v)
	}
	return s.said, s.says(ctx)
}

func (s *site) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	if s.undated != nil {
		return nil, s.undated
	}
	return &modproxy.History{Module: m, Versions: []modproxy.DatedVersion{{Version: "9.9.9"}, {Version: "1.0.0", Published: seenAt.Add(-time.Hour)}}}, s.says(ctx)
}

func (s *site) Downloads(ctx context.Context, _ modproxy.Address) (*modproxy.Downloads, error) {
	return &modproxy.Downloads{Total: 3}, s.says(ctx)
}

func (s *site) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	return &modproxy.Text{Content: id + " of " + v.Version}, s.says(ctx)
}

func (s *site) List(ctx context.Context, _ modproxy.Query) (*modproxy.Page, error) {
	return s.page, s.says(ctx)
}

func (s *site) Stat(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if !s.held[v] {
		return nil, fs.ErrNotExist
	}
	return &modproxy.Package{Body: empty{strings.NewReader("")}}, nil
}

func (s *site) Open(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	return s.Stat(ctx, v)
}

type empty struct{ *strings.Reader }

func (empty) Verify(context.Context) error { return nil }

func (empty) Close() error { return nil }

func (s *site) Modules(context.Context) iter.Seq2[modproxy.Address, error] {
	s.mu.Lock()
	s.listed++
	s.mu.Unlock()
	return func(yield func(modproxy.Address, error) bool) {
		byAddress := func(a, b modproxy.Address) int { return strings.Compare(a.String(), b.String()) }
		for _, m := range slices.SortedFunc(func(each func(modproxy.Address) bool) {
			for m := range s.versions {
				if !each(m) {
					return
				}
			}
		}, byAddress) {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (s *site) Lookup(_ context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if source, ok := s.sources[v]; ok {
		return modproxy.Record{Ref: v, Source: modproxy.Source{URL: source}, Time: seenAt}, nil
	}
	return modproxy.Record{}, fs.ErrNotExist
}

func (s *site) Recorded(context.Context, modproxy.Address) (modproxy.FirstSeen, error) {
	return modproxy.FirstSeen{Module: seenAt, Versions: map[string]modproxy.VersionDates{"1.0.0": {}, "1.1.0": {Seen: seenAt.Add(time.Hour)}}}, nil
}

func (s *site) CheckNamespace(context.Context, string, string) error { return nil }

func (s *site) CheckListed(_ context.Context, v modproxy.Ref, firstSeen modproxy.FirstSeen) error {
	s.mu.Lock()
	s.firstSeen = append(s.firstSeen, firstSeen)
	s.mu.Unlock()
	if s.refused[v] {
		return modproxy.ErrDenied
	}
	return nil
}

func (s *site) Deprecation(_ context.Context, v modproxy.Ref) (*modproxy.Deprecation, error) {
	if v.Version == "1.1.0" {
		return &modproxy.Deprecation{Reason: "use 1.0"}, nil
	}
	return nil, nil
}

func (s *site) Describe(_ context.Context, _ *modproxy.Package, d *modproxy.Details) error {
	time.Sleep(s.reading)
	s.mu.Lock()
	s.described++
	s.mu.Unlock()
	d.Root.Readme = cmp.Or(s.readme, "kept")
	return s.bad
}

func (s *site) with(versions ...string) *site {
	s.versions = map[modproxy.Address][]string{network: versions}
	s.held = map[modproxy.Ref]bool{network.At("1.0.0"): true}
	return s
}

// sameAs reports whether d equals said, restricted to the listed versions.
func sameAs(d, said *modproxy.Details) bool {
	listed := *said
	listed.Listed = d.Listed
	return d.Listed != "" && reflect.DeepEqual(*d, listed)
}

func TestDetailsFirstOfTheRegistry(t *testing.T) {
	said := &modproxy.Details{Summary: modproxy.Summary{Ref: network.At("1.0.0"), Source: "https://example.com", Published: seenAt.AddDate(-1, 0, 0)}}
	s := (&site{said: said}).with("1.0.0", "1.1.0")
	c := newCatalog(s)
	d, err := c.Details(t.Context(), network.At("1.0.0"))
	if err != nil || !sameAs(d, said) {
		t.Error(d, err)
	}
	if again, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || again != d {
		t.Error(again, err) // results are remembered by the address of d
	}
	for _, absent := range []string{"2.0.0", "1.0.0+x"} {
		if _, err := c.Details(t.Context(), network.At(absent)); !errors.Is(err, modproxy.ErrNotFound) {
			t.Error(absent, err)
		}
	}
	s.refused = map[modproxy.Ref]bool{network.At("1.0.0"): true}
	if _, err := c.Details(t.Context(), network.At("1.0.0")); !errors.Is(err, modproxy.ErrNotFound) {
		t.Error(err)
	}
	d, err = c.Details(t.Context(), network.At("1.1.0"))
	if err != nil || d.Deprecation == nil || d.Deprecation.Reason != "use 1.0" || said.Deprecation != nil {
		t.Error(d, err)
	}
	if again, _ := c.Details(t.Context(), network.At("1.1.0")); again != d {
		t.Error("it is made again")
	}
}

func TestDetailsOfWhatIsKept(t *testing.T) {
	for name, err := range map[string]error{"absent": modproxy.ErrNotFound, "down": modproxy.ErrUnavailable, "closed": modproxy.ErrDenied} {
		s := (&site{err: err, sources: map[modproxy.Ref]string{network.At("1.0.0"): "https://git.example.com/a"}}).with("1.0.0", "1.1.0")
		c := newCatalog(s)
		d, errKept := c.Details(t.Context(), network.At("1.0.0"))
		if errKept != nil || d.Root.Readme != "kept" || d.Source != "https://git.example.com/a" || !d.Published.Equal(seenAt) || !d.Hit {
			t.Errorf("%s: %+v, %v", name, d, errKept)
		}
		if again, _ := c.Details(t.Context(), network.At("1.0.0")); again != d || s.described != 1 {
			t.Errorf("%s: it is made again", name)
		}
		if _, errOther := c.Details(t.Context(), network.At("1.1.0")); !errors.Is(errOther, err) {
			t.Errorf("%s: %v", name, errOther)
		}
	}
	s := (&site{}).with("1.0.0", "1.1.0")
	c := newCatalog(s)
	c.Next = nil
	if d, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || d.Source != "" {
		t.Error(d, err)
	}
	if _, err := c.Details(t.Context(), network.At("1.1.0")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}

// A recent answer is reused unless the list of versions or the decisions of operators change.
func TestDetailsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &modproxy.Details{Summary: modproxy.Summary{Ref: network.At("1.1.0")}, Answered: modproxy.Answered{Hit: true}}
		s := (&site{said: said}).with("1.0.0", "1.1.0")
		c := newCatalog(s)
		details := func() *modproxy.Details {
			t.Helper()
			d, err := c.Details(t.Context(), network.At("1.1.0"))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		first := details()
		s.said = &modproxy.Details{Summary: said.Summary, Answered: said.Answered}
		s.said.Description = "another"
		if details() != first {
			t.Error("it is looked for anew")
		}
		s.refused = map[modproxy.Ref]bool{network.At("1.0.0"): true}
		second := details()
		if second == first || second.Listed == first.Listed || second.Description != "another" {
			t.Error("other versions are listed, and it is the same")
		}
		s.said = said
		time.Sleep(time.Second)
		if details().Description != "" {
			t.Error("it is the same after a second")
		}
		s.refused[network.At("1.1.0")] = true
		if _, err := c.Details(t.Context(), network.At("1.1.0")); !errors.Is(err, modproxy.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestDetailsOfWhatCannotBeRead(t *testing.T) {
	s := (&site{err: modproxy.ErrNotFound, bad: fmt.Errorf("%w: nested", modproxy.ErrInvalid)}).with("1.0.0")
	d, err := newCatalog(s).Details(t.Context(), network.At("1.0.0"))
	if err != nil || !strings.Contains(d.Root.Readme, "cannot read this module: invalid: nested") || d.Published.IsZero() {
		t.Error(d, err)
	}
	s.bad = modproxy.ErrUnavailable
	if _, err := newCatalog(s).Details(t.Context(), network.At("1.0.0")); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}

// A client waits a second for a registry if the package is cached, and as long as the cache waits if it is not.
func TestDetailsOfALateRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &modproxy.Details{Summary: modproxy.Summary{Source: "https://example.com", Published: seenAt}}
		s := (&site{said: said, late: 2 * time.Second}).with("1.0.0", "1.2.0")
		c := newCatalog(s)
		began := time.Now()
		d, err := c.Details(t.Context(), network.At("1.0.0"))
		if took := time.Since(began); err != nil || d.Root.Readme != "kept" || took != time.Second {
			t.Error(d, err, took)
		}
		if d, err := c.Details(t.Context(), network.At("1.2.0")); err != nil || !sameAs(d, said) {
			t.Error(d, err)
		}
	})
}

// A package is read once for all clients. If reading takes long, they must retry, and then get the result.
func TestDetailsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&site{err: modproxy.ErrNotFound, reading: 5 * time.Second}).with("1.0.0")
		c := newCatalog(s)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				var later *modproxy.RetryLater
				if _, err := c.Details(t.Context(), network.At("1.0.0")); !errors.As(err, &later) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		time.Sleep(3 * time.Second)
		if _, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || s.described != 1 {
			t.Error(err, s.described)
		}
	})
}

// If a registry describes versions but has no history, histories and descriptions agree about a version.
func TestHistoryOfDescriptions(t *testing.T) { synctest.Test(t, testHistoryOfDescriptions) }

func testHistoryOfDescriptions(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("1.%d.0", i))
	}
	s := (&site{}).with(many...)
	s.undated = modproxy.ErrNotFound
	var asked atomic.Int64
	s.each = func(v modproxy.Ref) (*modproxy.Details, error) {
		asked.Add(1)
		if v.Version == "1.18.0" {
			return nil, modproxy.ErrNotFound
		}
		d := &modproxy.Details{Summary: modproxy.Summary{
			Ref: v, Owner: "acme", Source: "https://git.example.com/acme/network", Verified: true, Downloads: 7, Tag: "v" + v.Version,
			Published: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		}}
		return d, nil
	}
	c := newCatalog(s)
	for range 3 {
		h, err := c.History(t.Context(), network)
		if err != nil || h.Owner != "acme" || h.Source == "" || !h.Verified || h.Downloads != 7 || len(h.Versions) != 20 {
			t.Fatalf("%+v, %v", h, err)
		}
		for _, v := range h.Versions {
			number, _ := modproxy.ParseVersion(v.Version)
			oldest, _ := modproxy.ParseVersion("1.4.0")
			told := v.Version != "1.18.0" && number.Compare(oldest) >= 0
			if told != (v.Published.Year() == 2020) || told != (v.Tag == "v"+v.Version) || told != (v.Downloads == 7) || v.Published.IsZero() {
				t.Errorf("%+v", v)
			}
		}
	}
	if n := asked.Load(); n != 17 {
		t.Errorf("%d questions for 16 versions and the latest", n)
	}
	s.each = func(modproxy.Ref) (*modproxy.Details, error) {
		asked.Add(1)
		return nil, modproxy.ErrNotFound
	}
	asked.Store(0)
	if h, err := newCatalog(s).History(t.Context(), network); err != nil || h.Owner != "" || asked.Load() != 1 {
		t.Errorf("%+v, %v after %d questions", h, err, asked.Load())
	}
}

func TestHistory(t *testing.T) {
	s := (&site{}).with("1.0.0", "1.1.0", "1.2.0")
	h, err := newCatalog(s).History(t.Context(), network)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range h.Versions {
		got = append(got, v.Version+" "+v.Published.Format(time.RFC3339))
	}
	if want := "1.0.0 2026-01-02T02:04:05Z, 1.1.0 2026-01-02T04:04:05Z"; !strings.HasPrefix(strings.Join(got, ", "), want) || len(got) != 3 || h.Versions[2].Published.IsZero() {
		t.Error(got)
	}
	s.err = modproxy.ErrUnavailable
	s.refused = map[modproxy.Ref]bool{network.At("1.1.0"): true}
	h, err = newCatalog(s).History(t.Context(), network)
	if err != nil || len(h.Versions) != 2 || !h.Versions[0].Published.Equal(seenAt) || !h.Hit {
		t.Error(h, err)
	}
	if d, err := newCatalog(s).Downloads(t.Context(), network); err != nil || d.Total != 0 {
		t.Error(d, err)
	}
}
