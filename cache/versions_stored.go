package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// listingHeader is the first line of a stored document. The document follows, compressed with gzip.
type listingHeader struct {
	Dropped  int                  `json:"dropped,omitempty"` // as in [modproxy.Versions]
	Time     time.Time            `json:"time"`              // when the registry gave the answer
	Unlisted map[string]time.Time `json:"unlisted,omitempty"`
}

// encode implements source.
func (listings) encode(l *listing) ([]byte, error) {
	text, err := json.Marshal(listingHeader{l.Dropped, l.Time, l.unlisted})
	if err != nil {
		return nil, err
	}
	return append(append(text, '\n'), l.Compressed...), nil
}

// decode implements source.
func (listings) decode(k key, text []byte) (l *listing, size int64, err error) {
	header, document, _ := bytes.Cut(text, []byte("\n"))
	var h listingHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return nil, 0, err
	}
	plain, err := inflate(document)
	if err != nil {
		return nil, 0, err
	}
	v, err := modproxy.RestoreVersions(k.Address, plain, document)
	if err != nil {
		return nil, 0, err
	}
	v.Dropped, v.Time = h.Dropped, h.Time
	l = &listing{v, h.Unlisted}
	return l, l.size(), nil
}

const maxDocument = 64 << 20 // bytes of a stored document; answers of upstream are far smaller

// Withdrawn reports whether a record is about a version that its registry no longer lists, according to the stored document. It
// implements [store.Store.EvictLast].
func (r *Registry) Withdrawn(ctx context.Context, ref store.Ref) bool {
	v, _ := VersionOf(ref)
	if v.IsArchive() {
		v = v.Base()
	}
	if v.Version == "" || !v.IsListed() {
		return false
	}
	rec, err := r.Store.Records.Get(ctx, keyOf(v.Address).ref())
	if err != nil {
		return false
	}
	var h listingHeader
	if _, text, err := splitRequested(rec.Value); err == nil {
		header, _, _ := bytes.Cut(text, []byte("\n"))
		_ = json.Unmarshal(header, &h) // on error, Unlisted is empty
	}
	_, unlisted := h.Unlisted[v.Version]
	return unlisted
}
