package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/store"
)

// The kinds of records that a [Catalog] keeps in its store, beside those of documents of providers. Both can be lost: they are
// asked for again.
const (
	DetailsKind store.Kind = "module-details" // what a registry says of one version
	HistoryKind store.Kind = "module-history" // what it says of all versions of a module
)

// Catalog keeps what another catalog says, as [Registry.Versions] keeps versions documents: fresh, stale, missing, one question for
// all that wait for its answer, which goes on when none of them waits any more. Details, histories and texts are kept in the store; counts
// of downloads and lists in memory, and few of them: whoever searches must not fill the store.
//
// What is answered from memory is the same pointer as long as it is the same answer.
type Catalog struct {
	// Next answers what is not known. Nil means offline: nobody is asked, and what is kept is served whatever its age.
	Next  modproxy.Catalog
	Store *store.Store

	// Fresh, MaxStale and Missing are those of [Registry].
	Fresh, MaxStale, Missing time.Duration
	// MaxKept is how many bytes the kept details, histories and texts may have, and for a while an eighth more; see MaxVersions
	// in [Registry] for what goes first.
	MaxKept  int64
	Observer Observer // may be nil

	once   sync.Once
	asking *flight.Pool

	details   documents[description, *said[modproxy.Details]]
	texts     documents[textKey, *said[modproxy.Text]]
	numbers   documents[numbersKey, *said[numbers]]
	histories documents[description, *said[modproxy.History]]
	downloads documents[description, *said[modproxy.Downloads]]
	lists     documents[selection, *said[modproxy.Page]]
}

// Observer is told what happens, in the middle of the work and by many goroutines at once.
type Observer interface{ ObserveCache(Event) }

var _ modproxy.Catalog = (*Catalog)(nil)

const (
	maxHotHistories = 16 << 20 // bytes in memory
	maxHotDownloads = 1 << 20
	maxHotLists     = 8 << 20
)

func (c *Catalog) start() {
	c.asking = flight.NewPool(maxAsking)
	observe := func(e Event) {
		if c.Observer != nil {
			c.Observer.ObserveCache(e)
		}
	}
	c.details = documents[description, *said[modproxy.Details]]{
		op: "details", store: c.Store, memory: maxHot, limit: c.MaxKept / 2,
		source: answers[description, modproxy.Details]{
			kind: DetailsAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.Details, error) {
				d, err := c.Next.Details(ctx, k.Ref)
				if err == nil {
					c.remember(ctx, k.Ref, d)
				}
				return d, err
			},
			about: func(k description, d *modproxy.Details) { d.Ref = k.Ref },
			marks: func(d *modproxy.Details) *modproxy.Answered { return &d.Answered },
		},
	}
	c.histories = documents[description, *said[modproxy.History]]{
		op: "history", store: c.Store, memory: maxHotHistories, limit: c.MaxKept / 4,
		source: answers[description, modproxy.History]{
			kind: HistoryAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.History, error) {
				return c.Next.History(ctx, k.Address)
			},
			about: func(k description, h *modproxy.History) { h.Module = k.Address },
			marks: func(h *modproxy.History) *modproxy.Answered { return &h.Answered },
		},
	}
	c.texts = documents[textKey, *said[modproxy.Text]]{
		op: "document", store: c.Store, memory: maxHotTexts, limit: c.MaxKept / 8,
		source: answers[textKey, modproxy.Text]{
			kind: DetailsAsked, observe: observe,
			next: func(ctx context.Context, k textKey) (*modproxy.Text, error) {
				return c.Next.Text(ctx, k.Ref, k.id)
			},
			about: func(textKey, *modproxy.Text) {},
			marks: func(t *modproxy.Text) *modproxy.Answered { return &t.Answered },
		},
	}
	c.numbers = documents[numbersKey, *said[numbers]]{
		op: "documents", store: c.Store, memory: maxHotNumbers, limit: c.MaxKept / 8,
		source: answers[numbersKey, numbers]{
			about: func(numbersKey, *numbers) {},
			marks: (*numbers).marks,
		},
	}
	c.downloads = documents[description, *said[modproxy.Downloads]]{
		op: "downloads", memory: maxHotDownloads,
		source: answers[description, modproxy.Downloads]{
			kind: DownloadsAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.Downloads, error) {
				return c.Next.Downloads(ctx, k.Address)
			},
			marks: func(d *modproxy.Downloads) *modproxy.Answered { return &d.Answered },
		},
	}
	c.lists = documents[selection, *said[modproxy.Page]]{
		op: "list", memory: maxHotLists,
		source: answers[selection, modproxy.Page]{
			kind: ListAsked, observe: observe,
			next:  func(ctx context.Context, k selection) (*modproxy.Page, error) { return c.Next.List(ctx, k.Query) },
			marks: func(p *modproxy.Page) *modproxy.Answered { return &p.Answered },
		},
	}
	startCatalog(c, &c.details, observe)
	startCatalog(c, &c.histories, observe)
	startCatalog(c, &c.texts, observe)
	startCatalog(c, &c.numbers, observe)
	startCatalog(c, &c.downloads, observe)
	startCatalog(c, &c.lists, observe)
}

// startCatalog starts d with what all documents of c have in common.
func startCatalog[K question, V document[V]](c *Catalog, d *documents[K, V], observe func(Event)) {
	d.work, d.observe, d.trimmed = c.asking, observe, CatalogTrimmed
	d.fresh, d.maxStale, d.missesFor = c.Fresh, c.MaxStale, c.Missing
	d.start()
}

// Close ends the questions that go on: nothing depends on their answers. Nothing is asked of Next afterwards; what is kept is still
// served. The store is closed after it. Its error is that they have not ended when ctx does.
func (c *Catalog) Close(ctx context.Context) error {
	c.once.Do(c.start)
	c.asking.End()
	return closeAll(ctx, c.asking)
}

// Details describes one version: see [Catalog] and [modproxy.Catalog].
//
// Errors, here and below: those of Next; [modproxy.RetryLater] when it takes longer than three seconds or than ctx;
// [modproxy.ErrNotFound] when offline and nothing is kept.
func (c *Catalog) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	c.once.Do(c.start)
	return catalogued(ctx, c, &c.details, description{key{v}})
}

// History tells when the versions of m were published.
func (c *Catalog) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	c.once.Do(c.start)
	return catalogued(ctx, c, &c.histories, description{keyOf(m)})
}

// Downloads tells how often m was downloaded.
func (c *Catalog) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	c.once.Do(c.start)
	return catalogued(ctx, c, &c.downloads, description{keyOf(m)})
}

// List lists the modules that q selects.
func (c *Catalog) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	c.once.Do(c.start)
	return catalogued(ctx, c, &c.lists, selection{q})
}

// catalogued returns the answer for k, offline the one that is kept.
func catalogued[K question, T any](ctx context.Context, c *Catalog, d *documents[K, *said[T]], k K) (*T, error) {
	if c.Next != nil {
		s, err := d.get(ctx, k)
		if err != nil {
			return nil, k.wrap(d.op, err)
		}
		return s.value, nil
	}
	a, err := d.read(ctx, k)
	if err == nil && a == nil {
		err = fmt.Errorf("%w: it is not kept, and modproxy is offline", modproxy.ErrNotFound)
	}
	if err != nil {
		return nil, k.wrap(d.op, err)
	}
	return a.kept.value, nil
}

// description is the key of what describes a module, or one version of it.
type description struct{ key }

func (k description) ref() store.Ref {
	ref := k.key.ref()
	ref.Kind = DetailsKind
	if k.Version == "" {
		ref.Kind = HistoryKind
	}
	return ref
}

// selection is the key of a list. What is searched for is in no error and no event.
type selection struct{ modproxy.Query }

func (k selection) ref() store.Ref               { return store.Ref{} } // lists are not in the store
func (k selection) registry() string             { return k.Host }
func (k selection) publisher() string            { return k.Host + "/" + k.Namespace }
func (k selection) wrap(_ string, e error) error { return e } // which names the host, if it is of one

func (k selection) event(kind Kind, took time.Duration, err error) Event {
	return Event{Kind: kind, Module: modproxy.Address{Host: k.Host}, Duration: took, Err: err}
}
