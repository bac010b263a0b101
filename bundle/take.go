package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
)

const (
	atOnce       = 8        // packages verified and stored at the same time, so that they share flushes of the disk
	largeAtOnce  = 2        // of these, large packages, which are first copied to Scratch
	largePackage = 64 << 20 // bytes
)

// A taking is an entry of a bundle that is being imported.
type taking struct {
	*Entry
	spool string  // the file with its package; empty if every version of it is stored
	unfit []error // the reason why each version cannot be imported
	items []Item  // result of each version; without a State until it is known

	mu   sync.Mutex
	left int // number of undecided versions
}

// packages imports the packages of a bundle and returns the result of each version, in the order of the versions. A version that depends
// on others (see [group]) is decided after these were read, at any position in the bundle. The items are also valid if the import
// fails: they have every version that is stored.
func (x *imports) packages(ctx context.Context, b *Reader) (items []Item, err error) {
	var all []*taking
	defer func() { items = x.collect(context.WithoutCancel(ctx), all) }()
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	large := slots.NewSemaphore(largeAtOnce)
	var held heldBack
	for range b.Index.Packages {
		if err = working.Err(); err != nil {
			break
		}
		t := &taking{}
		if t.Entry, err = b.Next(); err != nil {
			break
		}
		t.items, t.unfit, t.left = make([]Item, len(t.Versions)), make([]error, len(t.Versions)), len(t.Versions)
		all = append(all, t)
		give := func() {}
		if t.Package.Package.Size > largePackage {
			if give, err = large.Take(working); err != nil {
				break
			}
		}
		if err = x.spool(working, t); err != nil {
			break
		}
		readable := x.arrive(t)
		work.Go(func() error {
			defer give()
			return x.take(working, t, readable, &held)
		})
	}
	if err == nil {
		if _, err = b.Next(); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if errWork := work.Wait(); errWork != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = errWork // errWork has ended the reading
	}
	if err == nil {
		err = x.takeHeld(ctx, held.list)
	}
	return items, err
}

// collect returns the results of all versions and removes remaining files. A version that was being stored when the import failed has
// no result yet.
func (x *imports) collect(ctx context.Context, all []*taking) (items []Item) {
	var decided []member
	for _, t := range all {
		t.drop()
		for i := range t.items {
			m := member{t, i}
			if t.items[i].State == "" && x.Cache.IsStored(ctx, m.version(), t.Sum) {
				t.items[i] = ItemOf(m.version(), Added, "")
			}
			if t.items[i].State != "" {
				decided = append(decided, m)
			}
		}
	}
	slices.SortFunc(decided, func(a, b member) int { return strings.Compare(a.version().String(), b.version().String()) })
	for _, m := range decided {
		items = append(items, m.items[m.i])
	}
	return items
}

// heldBack lists versions that are decided at the end: packages of providers that precede a release of their provider.
type heldBack struct {
	mu   sync.Mutex
	list []member
}

func (h *heldBack) add(m member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, m)
}

func (x *imports) takeHeld(ctx context.Context, list []member) error {
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, m := range list {
		work.Go(func() error { return x.decideOn(working, m) })
	}
	return work.Wait()
}

// spool copies the package of t to a file, unless every version of it is stored.
func (x *imports) spool(ctx context.Context, t *taking) error {
	if !slices.ContainsFunc(t.Versions, func(v Version) bool { return !x.Cache.IsStored(ctx, v.Ref, t.Sum) }) {
		return nil
	}
	f, err := os.CreateTemp(x.Scratch, "bundle.*.tmp")
	if err != nil {
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, noSpace(err))
	}
	t.spool = f.Name()
	_, err = io.Copy(f, t.Entry)
	return errors.Join(noSpace(err), f.Close())
}

// noSpace returns err as a [modproxy.NoSpace] if the disk is full.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return &modproxy.NoSpace{Err: err, Inodes: durable.NoInodes(err)}
	}
	return err
}

// drop removes the file with the package.
func (t *taking) drop() {
	if t.spool != "" {
		_ = os.Remove(t.spool) // the next start removes remaining files
		t.spool = ""
	}
}

// take decides about the versions of t, or leaves that to the versions they depend on. readable reports for each version whether all
// versions it depends on were read before.
func (x *imports) take(ctx context.Context, t *taking, readable []bool, held *heldBack) error {
	if err := x.verify(t); err != nil {
		return err
	}
	for i := range t.Versions {
		m := member{t, i}
		g, decides := x.groupOf(m)
		var err error
		switch {
		case g == nil:
			err = x.decideOn(ctx, m)
		case decides:
			err = x.join(ctx, g, m)
		case readable[i]:
			select {
			case <-g.done:
				err = x.decideOn(ctx, m)
			case <-ctx.Done():
				err = ctx.Err()
			}
		default:
			held.add(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decideOn imports or refuses a version.
func (x *imports) decideOn(ctx context.Context, m member) error {
	t, v := m.taking, m.version()
	item := ItemOf(v, Kept, "")
	if t.spool != "" && !x.Cache.IsStored(ctx, v, t.Sum) {
		newer, err := x.superseded(ctx, t.Records[m.i])
		if err == nil && newer == "" {
			if err = t.unfit[m.i]; err == nil {
				err = x.publish(ctx, m)
			}
			item.State = Added
		}
		switch {
		case errors.Is(err, modproxy.ErrUnavailable), ctx.Err() != nil:
			return cmp.Or(ctx.Err(), err)
		case err != nil:
			item.State, item.Reason = Refused, err.Error()
		default:
			item.Reason = newer
		}
	}
	if item.State != Refused {
		x.learn(t.Entry, m.i)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items[m.i] = item
	if t.left--; t.left == 0 {
		t.drop()
	}
	return nil
}

// superseded returns a message if the ledger has a newer record than offered; otherwise the empty string. A bundle that is imported again,
// or begins another chain, may be older than accepted content. A release of a provider may have fewer packages than the recorded one.
func (x *imports) superseded(ctx context.Context, offered modproxy.Record) (string, error) {
	rec, err := x.Ledger.Lookup(ctx, offered.Ref)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Sum == offered.Sum {
		return "", nil
	}
	had := false
	if err == nil && rec.Reason != "" {
		had, err = x.Ledger.Had(ctx, offered.Ref, offered.Sum)
	}
	if err != nil || !had && (offered.Zips == "" || !rec.Zips.Extends(offered.Zips)) {
		return "", err
	}
	return strings.TrimSuffix("the ledger has a newer record of "+rec.Time.UTC().Format(time.RFC3339)+": "+rec.Reason, ": "), nil
}

// verify finds the versions of t that cannot have its package. The error means that the package cannot be read.
func (x *imports) verify(t *taking) error {
	if t.spool == "" {
		return nil
	}
	f, err := os.Open(t.spool)
	if err != nil {
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	defer f.Close()
	content := func() io.Reader { return io.NewSectionReader(f, 0, t.Package.Package.Size) }
	sum := modproxy.NewSum(t.Package.Package.Digest) // the reader verified the digest
	if !t.isZip() {
		sum, err = pack.Verify(content(), x.Limits)
	}
	if err == nil && sum != t.Sum {
		err = wrong("its package has the sum %s; its record has %s", sum, t.Sum)
	}
	for i, v := range t.Versions {
		if t.unfit[i] = err; err == nil && v.IsProvider() && !t.isZip() {
			t.unfit[i] = x.Releases.check(content(), t.Records[i])
		}
		if unfit := t.unfit[i]; unfit != nil && !errors.Is(unfit, modproxy.ErrInvalid) { // the file cannot be read
			return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, unfit)
		}
	}
	return nil
}

// publish records a version and stores its package.
func (x *imports) publish(ctx context.Context, m member) error {
	t, v := m.taking, m.version()
	rec, p := t.Records[m.i], t.pack(m.i)
	rec.Subdir, rec.Reason = cmp.Or(p.Subdir, "."), ""
	if err := x.checkRelease(ctx, rec); err != nil {
		return err
	}
	layer := ledger.Registry{Ledger: x.Ledger, Signers: x.Releases.Signers}
	if err := layer.Compare(ctx, rec); err != nil {
		return err
	}
	f, err := os.Open(t.spool)
	if err != nil {
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	defer f.Close()
	p.Body = modproxy.NewBody(part{io.NewSectionReader(f, 0, p.Size)}, p.Digest)
	return x.Cache.Keep(ctx, v, &p)
}
