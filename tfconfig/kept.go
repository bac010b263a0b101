package tfconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// ConfigurationKind is the kind of the records of configurations that were read from packages. The key is the digest of the package.
// The records refer to no other records, are removed after their package, and can be lost without harm.
const ConfigurationKind store.Kind = "configuration"

const (
	maxReadings = 16      // of a package; the oldest is dropped
	maxKept     = 4 << 20 // bytes of their JSON
)

// kept is the value of a record.
type kept struct {
	Edition  int       `json:"edition"`
	Readings []reading `json:"readings"` // the newest last
}

// reading is the result of reading a package with some options.
type reading struct {
	Options       json.RawMessage `json:"options"`
	Configuration *Configuration  `json:"configuration,omitempty"`
	Unreadable    string          `json:"unreadable,omitempty"`
}

// one reads a tree, or returns the stored result.
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
	was.Edition, was.Readings = edition, newest(append(was.Readings, now))
	if value, err := seal(was, time.Now()); err == nil && len(was.Readings) > 0 {
		rec.Value = value
		r.put(ctx, rec)
	}
	return c, err
}

// newest returns the last readings that fit the bounds.
func newest(all []reading) []reading {
	size, n := 0, 0
	for _, one := range slices.Backward(all) {
		text, err := json.Marshal(one)
		if size += len(text); err != nil || size > maxKept || n == maxReadings {
			break
		}
		n++
	}
	return all[len(all)-n:]
}

// lookup returns the stored readings of a package.
func (r *Reader) lookup(ctx context.Context, d modproxy.Digest) (rec store.Record, was kept) {
	ref := store.Ref{Kind: ConfigurationKind, Key: d.String()}
	rec, _ = r.Store.Records.Get(ctx, ref)
	rec.Ref = ref
	if unseal(rec.Value, 2*maxKept, &was) != nil || was.Edition != edition {
		was = kept{}
	}
	return rec, was
}
