package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// says is a catalog that says one number in every answer, and counts the questions.
type says struct {
	mu    sync.Mutex
	count int
	saying
}

// saying is what a test says.
type saying struct {
	number int64
	err    error
	delay  time.Duration
	text   string // in every answer
	docs   map[modproxy.Ref][]modproxy.Doc
}

func (s *says) change(f func(s *saying)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.saying)
}

// asked is how often anything was asked.
func (s *says) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *says) ask(ctx context.Context) (saying, modproxy.Answered, error) {
	s.mu.Lock()
	s.count++
	now := s.saying
	s.mu.Unlock()
	select {
	case <-time.After(now.delay):
	case <-ctx.Done():
		return now, modproxy.Answered{}, ctx.Err()
	}
	return now, modproxy.Answered{Time: time.Now()}, now.err
}

func (s *says) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	now, answered, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	d := &modproxy.Details{Answered: answered, Submodules: []modproxy.Part{{Path: "modules/a", Readme: now.text}}, Examples: []modproxy.Part{}}
	d.Ref, d.Downloads, d.Published = v, now.number, time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)
	d.Deprecation = &modproxy.Deprecation{Reason: "<old>"}
	if v.IsProvider() {
		d.Docs = s.docs[v]
	}
	return d, nil
}

func (s *says) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	now, answered, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	list := []modproxy.DatedVersion{{Version: "1.0.0", Description: now.text, Published: time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)}}
	return &modproxy.History{Module: m, Downloads: now.number, Versions: list, Answered: answered}, nil
}

func (s *says) Downloads(ctx context.Context, _ modproxy.Address) (*modproxy.Downloads, error) {
	now, answered, err := s.ask(ctx)
	return &modproxy.Downloads{Total: now.number, Answered: answered}, err
}

func (s *says) Text(ctx context.Context, _ modproxy.Ref, id string) (*modproxy.Text, error) {
	now, answered, err := s.ask(ctx)
	return &modproxy.Text{Content: fmt.Sprintf("%d of %s %s", now.number, id, now.text), Answered: answered}, err
}

func (s *says) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	now, answered, err := s.ask(ctx)
	of := modproxy.Summary{Ref: vpc.At("1.0.0"), Description: now.text + q.Search, Downloads: now.number}
	return &modproxy.Page{Modules: []modproxy.Summary{of}, Answered: answered}, err
}

// topic is one of the questions of a catalog.
type topic struct {
	name string
	kind store.Kind // of its records; empty: it has none
	ask  func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (answer any, number int64, marks modproxy.Answered, err error)
}

var topics = []topic{
	{"details", cache.DetailsKind, func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (any, int64, modproxy.Answered, error) {
		d, err := c.Details(ctx, m.At("1.0.0"))
		if err != nil {
			return nil, 0, modproxy.Answered{}, err
		}
		return d, d.Downloads, d.Answered, nil
	}},
	{"history", cache.HistoryKind, func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (any, int64, modproxy.Answered, error) {
		h, err := c.History(ctx, m)
		if err != nil {
			return nil, 0, modproxy.Answered{}, err
		}
		return h, h.Downloads, h.Answered, nil
	}},
	{"text", cache.TextKind, func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (any, int64, modproxy.Answered, error) {
		text, err := c.Text(ctx, m.At("1.0.0"), "101")
		if err != nil {
			return nil, 0, modproxy.Answered{}, err
		}
		before, _, _ := strings.Cut(text.Content, " ")
		number, err := strconv.ParseInt(before, 10, 64)
		return text, number, text.Answered, err
	}},
	{"downloads", "", func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (any, int64, modproxy.Answered, error) {
		d, err := c.Downloads(ctx, m)
		if err != nil {
			return nil, 0, modproxy.Answered{}, err
		}
		return d, d.Total, d.Answered, nil
	}},
	{"list", "", func(c *cache.Catalog, ctx context.Context, m modproxy.Address) (any, int64, modproxy.Answered, error) {
		page, err := c.List(ctx, modproxy.Query{Host: m.Host, Search: m.Name, Limit: 15})
		if err != nil {
			return nil, 0, modproxy.Answered{}, err
		}
		return page, page.Modules[0].Downloads, page.Answered, nil
	}},
}

// described is a catalog over a storage in memory, and a test asks about one topic.
type described struct {
	*cache.Catalog
	topic
	next    *says
	storage *storetest.Memory
	events  *events
}

// ObserveCache implements [cache.Observer].
func (e *events) ObserveCache(event cache.Event) { e.add(event) }

// aboutEach runs a test for every topic.
func aboutEach(t *testing.T, test func(t *testing.T, f *described)) {
	for _, topic := range topics {
		t.Run(topic.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &described{topic: topic, next: &says{saying: saying{number: 1}}, storage: &storetest.Memory{}}
				f.restart(t)
				test(t, f)
			})
		})
	}
}

func newCatalog(h storetest.Handle) *cache.Catalog {
	return cache.NewCatalog(cache.CatalogConfig{
		Store:     store.New(store.Config{Records: h.Records, Blobs: h.Blobs, Quarantine: h.Quarantine}),
		Lifetimes: cache.Lifetimes{Fresh: 5 * time.Minute, MaxStale: 720 * time.Hour, Missing: 30 * time.Second},
	})
}

func closeCatalog(t testing.TB, c *cache.Catalog) {
	if err := errors.Join(c.Close(context.Background()), c.Store.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// restart makes a new catalog over the same storage.
func (f *described) restart(t *testing.T) {
	if f.Catalog != nil {
		closeCatalog(t, f.Catalog)
	}
	f.events = &events{}
	f.Catalog = newCatalog(f.storage.Handle())
	f.Next, f.Observer = f.next, f.events
	c := f.Catalog
	t.Cleanup(func() { closeCatalog(t, c) })
}

// said is what is answered about a module, with its marks.
func (f *described) said(t testing.TB, m modproxy.Address) string {
	t.Helper()
	return f.saidBy(t, f.Catalog, m)
}

func (f *described) saidBy(t testing.TB, c *cache.Catalog, m modproxy.Address) string {
	t.Helper()
	_, number, marks, err := f.ask(c, t.Context(), m)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprint(number)
	if marks.Hit {
		text += " hit"
	}
	if marks.Stale {
		text += " stale"
	}
	return text
}

// records is how many records of the topic are kept.
func (f *described) records(t testing.TB) (n int) {
	t.Helper()
	for _, err := range f.storage.Records().List(t.Context(), f.kind, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
