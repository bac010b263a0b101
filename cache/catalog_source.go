package cache

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// catalogSource is the source of the answers of a catalog.
type catalogSource[K question, T any] struct {
	kind    Kind // of the event for a request to Next
	observe func(Event)
	next    func(context.Context, K) (*T, error)
	about   func(K, *T) // sets the address, which is not stored
	status  func(*T) *modproxy.Answered
}

// request implements source.
func (a catalogSource[K, T]) request(ctx context.Context, k K, _ *T) (value *T, size int64, err error) {
	began := time.Now()
	value, err = a.next(ctx, k)
	a.observe(k.event(a.kind, time.Since(began), err))
	if err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(value)
	return value, sizeOf(text), err
}

// sizeOf returns about how many bytes a value has in memory that has this JSON text. Its strings do not share the text.
func sizeOf(text []byte) int64 { return overhead + 2*int64(len(text)) }

// learn implements source.
func (catalogSource[K, T]) learn(K, *T) {}

// marked implements source.
func (a catalogSource[K, T]) marked(value *T, stale bool) *T {
	copied := *value
	status := a.status(&copied)
	status.Hit, status.Stale = true, stale
	return &copied
}

// storedAnswer is the stored form of an answer; it is compressed with gzip.
type storedAnswer[T any] struct {
	Time  time.Time `json:"time"` // the time of the answer
	Value *T        `json:"value"`
}

// encode implements source.
func (a catalogSource[K, T]) encode(value *T) ([]byte, error) {
	text, err := json.Marshal(storedAnswer[T]{a.status(value).Time, value})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(text)
	z.Close()
	return out.Bytes(), nil
}

// decode implements source.
func (a catalogSource[K, T]) decode(k K, text []byte) (value *T, size int64, err error) {
	plain, err := inflate(text)
	if err != nil {
		return nil, 0, err
	}
	var stored storedAnswer[T]
	if err := json.Unmarshal(plain, &stored); err != nil {
		return nil, 0, err
	}
	if stored.Value == nil {
		return nil, 0, fmt.Errorf("%w: a stored answer without a value", modproxy.ErrInvalid)
	}
	a.about(k, stored.Value)
	a.status(stored.Value).Time = stored.Time
	return stored.Value, sizeOf(plain), nil
}

// inflaters are reused, because one has 40 KB.
var inflaters = sync.Pool{New: func() any { return new(gzip.Reader) }}

// inflate returns the text of a stored document, which is compressed with gzip.
func inflate(document []byte) ([]byte, error) {
	z := inflaters.Get().(*gzip.Reader)
	defer inflaters.Put(z)
	if err := z.Reset(bytes.NewReader(document)); err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	if n := len(document); n > 4 { // the last bytes are the size of the text; gzip compresses to a thousandth at most
		plain.Grow(int(min(int64(binary.LittleEndian.Uint32(document[n-4:])), int64(n)*1032, maxDocument)) + bytes.MinRead)
	}
	switch _, err := plain.ReadFrom(io.LimitReader(z, maxDocument+1)); {
	case err != nil:
		return nil, err
	case plain.Len() > maxDocument: // the cache stores no such document: another program has changed the store
		return nil, fmt.Errorf("%w: a stored document of more than %d bytes", modproxy.ErrInvalid, maxDocument)
	}
	return plain.Bytes(), nil
}
