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

// said is what a catalog has said.
type said[T any] struct {
	value *T
	bytes int64 // in memory, about
	marks func(*T) *modproxy.Answered
}

func (s *said[T]) size() int64 { return s.bytes }

func (s *said[T]) marked(stale bool) *said[T] {
	value := *s.value
	marks := s.marks(&value)
	marks.Hit, marks.Stale = true, stale
	return &said[T]{&value, s.bytes, s.marks}
}

// answers is the source of what a catalog says.
type answers[K question, T any] struct {
	kind    Kind // of the event that Next was asked
	observe func(Event)
	next    func(context.Context, K) (*T, error)
	about   func(K, *T) // sets what the answer is about, which is not kept
	marks   func(*T) *modproxy.Answered
}

// ask implements source.
func (a answers[K, T]) ask(ctx context.Context, k K, _ *said[T]) (*said[T], error) {
	asked := time.Now()
	value, err := a.next(ctx, k)
	a.observe(k.event(a.kind, time.Since(asked), err))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	return &said[T]{value, size(text), a.marks}, err
}

// size returns the bytes that a value has in memory whose JSON text that is: about as many, and its strings do not share them.
func size(text []byte) int64 { return overhead + 2*int64(len(text)) }

// learn implements source.
func (answers[K, T]) learn(K, *said[T]) {}

// sentence is what is kept of an answer, in gzip form.
type sentence[T any] struct {
	Time  time.Time `json:"time"` // when it was given
	Value *T        `json:"value"`
}

// encode implements source.
func (a answers[K, T]) encode(s *said[T]) ([]byte, error) {
	text, err := json.Marshal(sentence[T]{a.marks(s.value).Time, s.value})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(text) // a bytes.Buffer takes everything
	z.Close()
	return out.Bytes(), nil
}

// decode implements source.
func (a answers[K, T]) decode(k K, text []byte) (*said[T], error) {
	plain, err := inflate(text)
	if err != nil {
		return nil, err
	}
	var kept sentence[T]
	if err := json.Unmarshal(plain, &kept); err != nil {
		return nil, err
	}
	if kept.Value == nil {
		return nil, fmt.Errorf("%w: a kept answer that says nothing", modproxy.ErrInvalid)
	}
	a.about(k, kept.Value)
	a.marks(kept.Value).Time = kept.Time
	return &said[T]{kept.Value, size(plain), a.marks}, nil
}

// inflaters are used again: one has 40 KB.
var inflaters = sync.Pool{New: func() any { return new(gzip.Reader) }}

// inflate returns what is in a kept document in gzip form.
func inflate(document []byte) ([]byte, error) {
	z := inflaters.Get().(*gzip.Reader)
	defer inflaters.Put(z)
	if err := z.Reset(bytes.NewReader(document)); err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	if n := len(document); n > 4 { // it ends with its size, and gzip makes nothing smaller than a thousandth
		plain.Grow(int(min(int64(binary.LittleEndian.Uint32(document[n-4:])), int64(n)*1032, maxDocument)) + bytes.MinRead)
	}
	switch _, err := plain.ReadFrom(io.LimitReader(z, maxDocument+1)); {
	case err != nil:
		return nil, err
	case plain.Len() > maxDocument: // nothing that was kept is: somebody has changed the store
		return nil, fmt.Errorf("%w: a kept document of more than %d bytes", modproxy.ErrInvalid, maxDocument)
	}
	return plain.Bytes(), nil
}
