package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/store"
)

// The kinds of records of a [Catalog] in its store, beside those of documents of providers. If they are lost, they are requested
// again.
const (
	DetailsKind store.Kind = "module-details" // the document about one version
	HistoryKind store.Kind = "module-history" // the document about all versions of a module
)

// CatalogConfig configures a [Catalog].
type CatalogConfig struct {
	// Next answers requests for documents that are not stored. nil means offline: nothing is requested, and stored answers are
	// served regardless of their age.
	Next  modproxy.Catalog
	Store *store.Store

	Lifetimes
	// MaxKept bounds the bytes of the stored details, histories and texts; for a while there may be an eighth more. See
	// MaxVersions in [Registry] for the order of removal.
	MaxKept  int64
	Observer Observer // may be nil
}

// Catalog stores the answers of another catalog, as [Registry.Versions] does with versions documents. Details, histories and
// texts are in the store. Counts of downloads and lists are in memory only, and few of them, so that searches do not fill the
// store. It is safe for concurrent use. [NewCatalog] makes one.
//
// An answer from memory is the same pointer as long as it is the same answer.
type Catalog struct {
	CatalogConfig // not changed

	asking *flight.Pool

	details   documents[description, *modproxy.Details]
	texts     documents[textKey, *modproxy.Text]
	numbers   documents[numbersKey, *numbers]
	histories documents[description, *modproxy.History]
	downloads documents[description, *modproxy.Downloads]
	lists     documents[selection, *modproxy.Page]
}

// Observer receives events, during the work and from many goroutines at once.
type Observer interface{ ObserveCache(Event) }

var _ modproxy.Catalog = (*Catalog)(nil)

const (
	maxHistoriesMemory = 16 << 20 // bytes in memory
	maxDownloadsMemory = 1 << 20
	maxListsMemory     = 8 << 20
)

// NewCatalog returns a Catalog that stores in config.Store.
func NewCatalog(config CatalogConfig) *Catalog {
	c := &Catalog{CatalogConfig: config}
	c.asking = flight.NewPool(maxAsking)
	observe := func(e Event) {
		if c.Observer != nil {
			c.Observer.ObserveCache(e)
		}
	}
	c.details = documents[description, *modproxy.Details]{
		op: "details", store: c.Store, maxMemory: maxListMemory, limit: c.MaxKept / 2,
		source: catalogSource[description, modproxy.Details]{
			kind: DetailsAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.Details, error) {
				d, err := c.Next.Details(ctx, k.Ref)
				if err == nil {
					c.remember(ctx, k.Ref, d)
				}
				return d, err
			},
			about:  func(k description, d *modproxy.Details) { d.Ref = k.Ref },
			status: func(d *modproxy.Details) *modproxy.Answered { return &d.Answered },
		},
	}
	c.histories = documents[description, *modproxy.History]{
		op: "history", store: c.Store, maxMemory: maxHistoriesMemory, limit: c.MaxKept / 4,
		source: catalogSource[description, modproxy.History]{
			kind: HistoryAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.History, error) {
				return c.Next.History(ctx, k.Address)
			},
			about:  func(k description, h *modproxy.History) { h.Module = k.Address },
			status: func(h *modproxy.History) *modproxy.Answered { return &h.Answered },
		},
	}
	c.texts = documents[textKey, *modproxy.Text]{
		op: "document", store: c.Store, maxMemory: maxTextsMemory, limit: c.MaxKept / 8,
		source: catalogSource[textKey, modproxy.Text]{
			kind: DetailsAsked, observe: observe,
			next: func(ctx context.Context, k textKey) (*modproxy.Text, error) {
				return c.Next.Text(ctx, k.Ref, k.id)
			},
			about:  func(textKey, *modproxy.Text) {},
			status: func(t *modproxy.Text) *modproxy.Answered { return &t.Answered },
		},
	}
	c.numbers = documents[numbersKey, *numbers]{
		op: "documents", store: c.Store, maxMemory: maxNumbersMemory, limit: c.MaxKept / 8,
		source: catalogSource[numbersKey, numbers]{
			about:  func(numbersKey, *numbers) {},
			status: (*numbers).status,
		},
	}
	c.downloads = documents[description, *modproxy.Downloads]{
		op: "downloads", maxMemory: maxDownloadsMemory,
		source: catalogSource[description, modproxy.Downloads]{
			kind: DownloadsAsked, observe: observe,
			next: func(ctx context.Context, k description) (*modproxy.Downloads, error) {
				return c.Next.Downloads(ctx, k.Address)
			},
			status: func(d *modproxy.Downloads) *modproxy.Answered { return &d.Answered },
		},
	}
	c.lists = documents[selection, *modproxy.Page]{
		op: "list", maxMemory: maxListsMemory,
		source: catalogSource[selection, modproxy.Page]{
			kind: ListAsked, observe: observe,
			next:   func(ctx context.Context, k selection) (*modproxy.Page, error) { return c.Next.List(ctx, k.Query) },
			status: func(p *modproxy.Page) *modproxy.Answered { return &p.Answered },
		},
	}
	startCatalog(c, &c.details, observe)
	startCatalog(c, &c.histories, observe)
	startCatalog(c, &c.texts, observe)
	startCatalog(c, &c.numbers, observe)
	startCatalog(c, &c.downloads, observe)
	startCatalog(c, &c.lists, observe)
	return c
}

// startCatalog starts d with the fields that all documents of c have in common.
func startCatalog[K question, V any](c *Catalog, d *documents[K, V], observe func(Event)) {
	d.work, d.observe, d.trimmed = c.asking, observe, CatalogTrimmed
	d.lifetimes = c.Lifetimes
	d.start()
}

// Close ends the running requests, because nothing depends on their answers. Afterwards nothing is requested from Next; stored
// content is still served. The caller closes the store after Close. It returns an error if the requests have not ended when ctx
// ends.
func (c *Catalog) Close(ctx context.Context) error {
	c.asking.End()
	return closeAll(ctx, c.asking)
}

// Details describes one version: see [Catalog] and [modproxy.Catalog].
//
// Errors, here and below: those of Next; [modproxy.RetryLater] if it takes longer than three seconds or than ctx;
// [modproxy.ErrNotFound] if nothing is stored and the catalog is offline.
func (c *Catalog) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	return catalogued(ctx, c, &c.details, description{key{v}})
}

// History returns the times of publication of the versions of m.
func (c *Catalog) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	return catalogued(ctx, c, &c.histories, description{keyOf(m)})
}

// Downloads returns the number of downloads of m.
func (c *Catalog) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	return catalogued(ctx, c, &c.downloads, description{keyOf(m)})
}

// List lists the modules that q selects.
func (c *Catalog) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	return catalogued(ctx, c, &c.lists, selection{q})
}

// catalogued returns the answer for k; offline, the stored one.
func catalogued[K question, T any](ctx context.Context, c *Catalog, d *documents[K, *T], k K) (*T, error) {
	if c.Next != nil {
		value, err := d.get(ctx, k)
		if err != nil {
			return nil, k.wrap(d.op, err)
		}
		return value, nil
	}
	a, err := d.read(ctx, k)
	if err == nil && a == nil {
		err = fmt.Errorf("%w: it is not cached, and modproxy is offline", modproxy.ErrNotFound)
	}
	if err != nil {
		return nil, k.wrap(d.op, err)
	}
	return a.value, nil
}

// description is the key of a document about a module, or about one version of it.
type description struct{ key }

func (k description) ref() store.Ref {
	ref := k.key.ref()
	ref.Kind = DetailsKind
	if k.Version == "" {
		ref.Kind = HistoryKind
	}
	return ref
}

// selection is the key of a list. Errors and events do not contain search terms.
type selection struct{ modproxy.Query }

func (k selection) ref() store.Ref               { return store.Ref{} } // lists are not in the store
func (k selection) registry() string             { return k.Host }
func (k selection) publisher() string            { return k.Host + "/" + k.Namespace }
func (k selection) wrap(_ string, e error) error { return e } // Next names the host

func (k selection) event(kind Kind, took time.Duration, err error) Event {
	return Event{Kind: kind, Module: modproxy.Address{Host: k.Host}, Duration: took, Err: err}
}
