package proxy

import (
	"context"
	"time"

	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// renderKey identifies a rendered document: an answer of the catalog, its form, and the entity tag of the list of versions. The answer
// is not changed.
type renderKey struct {
	of       any // a weak pointer to the answer, which may be much larger than the document
	kind     protocol.Kind
	versions string
}

const (
	maxRendered = 32 << 20 // bytes of documents in memory
	renderedFor = time.Hour
)

// renderedOf returns the remembered document for k, or the one that make makes of an answer of size bytes.
func (h *Handler) renderedOf(ctx context.Context, k renderKey, size int64, make func() any) (*httpx.Document, error) {
	if d, ok := h.rendered.Get(k); ok {
		return d, nil
	}
	return h.documents.Make(ctx, size, func() (*httpx.Document, error) {
		if d, ok := h.rendered.Get(k); ok { // another request has made it meanwhile
			return d, nil
		}
		d, err := httpx.NewDocument(make())
		if err == nil {
			h.rendered.Add(k, d, renderedFor, d.Size())
		}
		return d, err
	})
}
