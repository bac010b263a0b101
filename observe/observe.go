// Package observe notifies observers of clients' questions and of the answers to them.
//
//	reg = &observe.Registry{Next: reg, Observers: []observe.Observer{downloads, prefetcher}}
//
// Only questions of clients may be sent to a [Registry]. Parts of modproxy that send questions by themselves, such as package prefetch and
// package mirror, must send them to the layers below it, or they would be counted as questions of clients.
//
// Invariant: an observer never changes an answer. A layer that changes answers is a [modproxy.Registry] of its own.
//
// The end of a request is not observed here: package proxy reports it, with its status and size. Package history records the lists of
// registries, in a layer below the cache.
package observe

import (
	"context"

	"github.com/modproxy/modproxy"
)

// Kind is one of the questions of a [modproxy.Registry].
type Kind int

// The kinds of questions.
const (
	Versions Kind = iota
	Location
	Package
)

// Question is a question of a client.
type Question struct {
	Kind Kind
	Ref  modproxy.Ref // without a version if Kind is Versions
}

// Answer is the answer to a question. It has no package: observers must not read one.
type Answer struct {
	Versions *modproxy.Versions // of a question of this kind, without an error; must not be changed
	Location modproxy.Location  // likewise
	Err      error              // nil if the client receives what it requested
}

// Observer is notified of clients' questions. [modproxy.ClientOf] returns the client of a context. Implementations are safe for
// concurrent use. The client waits for them, so they must return quickly.
type Observer interface {
	// Requested is called before a question is forwarded.
	Requested(ctx context.Context, q Question)
	// Answered is called when Next has answered, also with an error or after ctx has ended, and before the first byte is sent to the
	// client. The client may not receive all of the answer. Answered is not called if Next panics.
	Answered(ctx context.Context, q Question, a Answer)
}

// Registry returns the results of Next, and notifies the observers in their order. It is safe for concurrent use.
type Registry struct {
	Next      modproxy.Registry
	Observers []Observer
}

var _ modproxy.Registry = (*Registry)(nil)

// Versions returns the result of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	q := Question{Versions, m.At("")}
	r.requested(ctx, q)
	v, err := r.Next.Versions(ctx, m)
	r.answered(ctx, q, Answer{Versions: v, Err: err})
	return v, err
}

// Location returns the result of Next.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	q := Question{Location, v}
	r.requested(ctx, q)
	l, err := r.Next.Location(ctx, v)
	r.answered(ctx, q, Answer{Location: l, Err: err})
	return l, err
}

// Package returns the result of Next.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	q := Question{Package, v}
	r.requested(ctx, q)
	p, err := r.Next.Package(ctx, v)
	r.answered(ctx, q, Answer{Err: err})
	return p, err
}

func (r *Registry) requested(ctx context.Context, q Question) {
	for _, o := range r.Observers {
		o.Requested(ctx, q)
	}
}

func (r *Registry) answered(ctx context.Context, q Question, a Answer) {
	for _, o := range r.Observers {
		o.Answered(ctx, q, a)
	}
}
