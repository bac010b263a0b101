package proxy

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/fair"
)

// Limits bound what clients may ask for. A zero field is no bound.
type Limits struct {
	// Requests is how many requests are answered at the same time, those that
	// wait for a package to be fetched included.
	Requests int
	// Rate is how many requests a second one client may send, and as many more at
	// once. A client is who it says with a token, or the address it comes from.
	Rate int
}

const (
	// How long a request waits for its turn. A client gives versions and download
	// ten seconds or less and one more try, after the time that it is told; the
	// request for a package it gives any time, and no other try.
	patience        = 3 * time.Second
	packagePatience = 30 * time.Second
	// The clients whose rate is remembered.
	maxClients = 16 << 10
)

// patienceFor is how long a request of a kind waits for its turn.
func patienceFor(k kind) time.Duration {
	if k == kindPackage {
		return packagePatience
	}
	return patience
}

// bounds is what has been used of Limits.
type bounds struct {
	turns   *fair.Turns   // for each request that is answered, by client; nil for no bound
	pacing  chan struct{} // one for each that waits until its rate allows it; nil for no bound
	rate    int
	mu      sync.Mutex // reserves
	clients *lru.Cache[string, *rate.Limiter]
}

func newBounds(l Limits) *bounds {
	b := &bounds{rate: l.Rate}
	if l.Requests > 0 {
		b.turns = fair.New(l.Requests, l.Requests, 0, l.Requests)
		b.pacing = make(chan struct{}, l.Requests)
	}
	var err error
	if b.clients, err = lru.New[string, *rate.Limiter](maxClients); err != nil {
		panic(err) // the size is not positive
	}
	return b
}

var (
	errBusy = errors.New("more requests at the same time than this proxy answers")
	errRate = errors.New("more requests than one client may send")
)

// later tells to come back, in whole seconds.
func later(wait time.Duration, err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(max(wait, time.Second)), Err: err}
}

// enter lets a request of client in when it is its turn, or says when to come
// back. Who was let in leaves.
func (b *bounds) enter(ctx context.Context, client string, patience time.Duration) error {
	waited, err := b.pace(ctx, client, patience)
	if err != nil || b.turns == nil || b.turns.Try(client) {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience-waited)
	defer cancel()
	switch err := b.turns.Take(waiting, client); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return later(0, errBusy)
}

func (b *bounds) leave(client string) {
	if b.turns != nil {
		b.turns.Give(client)
	}
}

// pace waits until client may send a request again, and says for how long it did.
func (b *bounds) pace(ctx context.Context, client string, patience time.Duration) (time.Duration, error) {
	if b.rate == 0 {
		return 0, nil
	}
	limiter, ok := b.clients.Get(client)
	if !ok {
		limiter = rate.NewLimiter(rate.Limit(b.rate), b.rate)
		if before, was, _ := b.clients.PeekOrAdd(client, limiter); was {
			limiter = before
		}
	}
	b.mu.Lock()
	turn := limiter.Reserve()
	delay := turn.Delay()
	if delay > patience {
		turn.Cancel() // before the next one reserves: then nothing is lost
	}
	b.mu.Unlock()
	switch {
	case delay == 0:
		return 0, nil
	case delay > patience:
		return 0, later(delay, errRate)
	}
	if b.pacing != nil {
		select {
		case b.pacing <- struct{}{}:
			defer func() { <-b.pacing }()
		default:
			return 0, later(0, errBusy)
		}
	}
	over := time.NewTimer(delay)
	defer over.Stop()
	select {
	case <-over.C:
		return delay, nil
	case <-ctx.Done():
		return delay, ctx.Err()
	}
}

// clientOf is who sends requests from an address, for their rate: the principal,
// if it is known, else the address. Who has one address of version 6 has 2⁶⁴.
func clientOf(ctx context.Context, address string) string {
	if p := auth.PrincipalOf(ctx); p.ID != "" {
		return p.Kind.String() + " " + p.ID
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		return netip.PrefixFrom(ip, 64).Masked().String() // without its zone
	}
	return address
}
