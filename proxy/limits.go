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
	// Requests is how many requests are answered at the same time. It includes those that wait for a package to be
	// fetched.
	Requests int
	// Rate is how many requests a second one client may send, and how many at once. A client is the principal of a
	// credential, or else an address.
	Rate int
}

const (
	// patience is how long a request waits for its turn. Clients give versions and download ten seconds or less, and try
	// once more after the time that they are told.
	patience = 3 * time.Second
	// packagePatience is the same for packages, to which clients give any time, and no other try.
	packagePatience = 30 * time.Second
	// maxClients is the number of clients whose rate is remembered.
	maxClients = 16 << 10
)

func patienceFor(k kind) time.Duration {
	if k == kindPackage {
		return packagePatience
	}
	return patience
}

var (
	errBusy = errors.New("more requests at the same time than this proxy answers")
	errRate = errors.New("more requests than one client may send")
)

// later returns err for clients, which come back after wait, or a second at least.
func later(wait time.Duration, err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(max(wait, time.Second)), Err: err}
}

// admission holds requests to Limits.
type admission struct {
	turns   *fair.Turns   // of the requests that are answered, shared by clients; nil for no bound
	pacing  chan struct{} // an element for each request that waits for the rate of its client; nil for no bound
	rate    int
	mu      sync.Mutex // held to reserve a request of a rate
	clients *lru.Cache[string, *rate.Limiter]
}

func newAdmission(l Limits) *admission {
	a := &admission{rate: l.Rate}
	if l.Requests > 0 {
		a.turns = fair.New(l.Requests, l.Requests, 0, l.Requests)
		a.pacing = make(chan struct{}, l.Requests)
	}
	a.clients, _ = lru.New[string, *rate.Limiter](maxClients) // its error is about the size
	return a
}

// admit waits for a turn of the client that sent the request of ctx. It returns ctx with the name of the client, for
// layers that share turns, too. leave gives the turn back.
func (h *Handler) admit(ctx context.Context, e *Event, patience time.Duration) (_ context.Context, leave func(), err error) {
	client := clientOf(ctx, e.Client)
	if err := h.admission.enter(ctx, client, patience); err != nil {
		return ctx, nil, err
	}
	return modproxy.WithAsker(ctx, client), func() { h.admission.leave(client) }, nil
}

// enter waits for a turn of client, or returns when to come back.
func (a *admission) enter(ctx context.Context, client string, patience time.Duration) error {
	waited, err := a.pace(ctx, client, patience)
	if err != nil || a.turns == nil || a.turns.Try(client) {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience-waited)
	defer cancel()
	if a.turns.Take(waiting, client) == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return later(0, errBusy)
}

// leave gives back a turn of client.
func (a *admission) leave(client string) {
	if a.turns != nil {
		a.turns.Give(client)
	}
}

// pace waits until client may send one more request. It returns how long that was.
func (a *admission) pace(ctx context.Context, client string, patience time.Duration) (time.Duration, error) {
	if a.rate == 0 {
		return 0, nil
	}
	delay := a.reserve(client, patience)
	switch {
	case delay == 0:
		return 0, nil
	case delay > patience:
		return 0, later(delay, errRate)
	}
	if a.pacing != nil {
		select {
		case a.pacing <- struct{}{}:
			defer func() { <-a.pacing }()
		default:
			return 0, later(0, errBusy)
		}
	}
	select {
	case <-time.After(delay):
		return delay, nil
	case <-ctx.Done():
		return delay, ctx.Err()
	}
}

// reserve reserves a request of the rate of client, unless that is further away than patience. It returns how far.
func (a *admission) reserve(client string, patience time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	limiter, ok := a.clients.Get(client)
	if !ok {
		limiter = rate.NewLimiter(rate.Limit(a.rate), a.rate)
		a.clients.Add(client, limiter)
	}
	turn := limiter.Reserve()
	delay := turn.Delay()
	if delay > patience {
		turn.Cancel() // before the next is reserved: then nothing is lost
	}
	return delay
}

// clientOf returns the name of the client that sends requests from an address: the principal if it is known, else the
// address. The owner of an address of version 6 has 2⁶⁴ of them.
func clientOf(ctx context.Context, address string) string {
	if p := auth.PrincipalOf(ctx); p.ID != "" {
		return p.Kind.String() + " " + p.ID
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		return netip.PrefixFrom(ip, 64).Masked().String() // without its zone
	}
	return address
}
