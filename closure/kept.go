package closure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// Kind is the kind of the records of what was read of packages, by digest. They need nothing, go when their package has
// gone, and can be lost.
const Kind store.Kind = "configuration"

const (
	maxReadings = 16      // of a package; the oldest goes
	maxKept     = 1 << 20 // bytes of a record
	sweepEvery  = 256     // new records
)

// kept is the value of a record.
type kept struct {
	Edition  int       `json:"edition"`
	Readings []reading `json:"readings"` // the newest is last
}

// reading is what was read of a package in one way.
type reading struct {
	Options       json.RawMessage `json:"options"`
	Configuration *Configuration  `json:"configuration,omitempty"`
	Unreadable    string          `json:"unreadable,omitempty"`
}

// one reads a tree, unless what was read of it is kept.
func (r *Reader) one(ctx context.Context, t Tree, o Options) (*Configuration, error) {
	if r.Store == nil || t.digest.IsZero() {
		return r.read(ctx, t, o)
	}
	options, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	rec, was := r.lookup(ctx, t.digest)
	for _, known := range was.Readings {
		switch {
		case !bytes.Equal(known.Options, options):
		case known.Configuration != nil:
			return known.Configuration, nil
		default:
			return nil, &unreadable{known.Unreadable}
		}
	}
	c, err := r.read(ctx, t, o)
	now := reading{Options: options, Configuration: c}
	if cannot, ok := errors.AsType[*unreadable](err); ok {
		now.Unreadable = cannot.text
	} else if err != nil {
		return nil, err
	}
	was.Edition, was.Readings = edition, append(was.Readings, now)
	was.Readings = was.Readings[max(0, len(was.Readings)-maxReadings):]
	if value, err := json.Marshal(was); err == nil && len(value) <= maxKept {
		rec.Value = value
		if _, err := r.Store.Records.Put(ctx, rec); err == nil {
			r.recorded(ctx)
		}
	}
	return c, err
}

// lookup returns what is kept of a package.
func (r *Reader) lookup(ctx context.Context, d modproxy.Digest) (rec store.Record, was kept) {
	ref := store.Ref{Kind: Kind, Key: d.String()}
	rec, _ = r.Store.Records.Get(ctx, ref)
	rec.Ref = ref
	if json.Unmarshal(rec.Value, &was) != nil || was.Edition != edition {
		was = kept{}
	}
	return rec, was
}

// recorded notes that there is another record.
func (r *Reader) recorded(ctx context.Context) {
	if r.added.Add(1)%sweepEvery == 0 {
		r.sweep(ctx)
	}
}

// sweep removes the records of packages that are not kept.
func (r *Reader) sweep(ctx context.Context) {
	for _, kind := range []store.Kind{Kind, DescriptionKind} {
		for rec, err := range r.Store.Records.List(ctx, kind, "") {
			if err != nil && !errors.Is(err, store.ErrDamaged) {
				return
			}
			digest, _, _ := strings.Cut(rec.Key, "/")
			d, bad := modproxy.ParseDigest(digest)
			_, gone := r.Store.Blobs.Stat(ctx, d)
			if err != nil || bad != nil || errors.Is(gone, fs.ErrNotExist) {
				_ = r.Store.Records.Delete(ctx, rec.Ref, rec.Revision)
			}
		}
	}
}
