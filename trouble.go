package modproxy

import (
	"context"
	"sync/atomic"
)

// Trouble is what a question that goes on has met so far. It is safe for concurrent
// use.
type Trouble struct{ last atomic.Pointer[error] }

type troubleKey struct{}

// WithTrouble returns a context for a question whose trouble t is told.
func WithTrouble(ctx context.Context, t *Trouble) context.Context {
	return context.WithValue(ctx, troubleKey{}, t)
}

// Troubled tells who waits for the question of ctx that err has happened, and that it
// goes on.
func Troubled(ctx context.Context, err error) {
	if t, ok := ctx.Value(troubleKey{}).(*Trouble); ok {
		t.last.Store(&err)
	}
}

// Last returns what happened last; nil if nothing has.
func (t *Trouble) Last() error {
	if err := t.last.Load(); err != nil {
		return *err
	}
	return nil
}
