package proxy

import (
	"errors"
	"sync"
)

const (
	largeDocument = 64 << 10 // the size from which a document counts while it is sent
	maxDocuments  = 64 << 20 // the bytes of large documents that are sent, with their compressed forms
)

var errDocuments = errors.New("many large versions documents are being sent to other clients")

// documents bounds the memory of the documents that are sent. A slow client holds one for as long as it takes, and a
// registry may have many that are all large. One that several clients are sent counts once. The zero value is ready. Its
// methods are safe for concurrent use.
type documents struct {
	mu   sync.Mutex
	used int64
	sent map[*byte]int // how many clients are sent the document that begins there
}

// hold must be called before document is sent, and release after it. compressed is the size of its compressed form. The
// error says when to come back.
func (d *documents) hold(document []byte, compressed int) (release func(), err error) {
	size := int64(len(document) + compressed)
	if size < largeDocument {
		return func() {}, nil
	}
	start := &document[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent[start] == 0 {
		if d.used+size > maxDocuments {
			return nil, later(0, errDocuments)
		}
		d.used += size
	}
	if d.sent == nil {
		d.sent = map[*byte]int{}
	}
	d.sent[start]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.sent[start]--; d.sent[start] == 0 {
			delete(d.sent, start)
			d.used -= size
		}
	}, nil
}
