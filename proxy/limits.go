package proxy

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// Limits bound what clients may ask for. A zero field is no bound.
type Limits struct {
	// Requests is how many requests are answered at the same time, with those that wait for a package to be fetched.
	Requests int
	// Rate is how many requests a second, and at once, one client may send: a principal, or else an address.
	Rate int
}

const (
	// patience is how long a request waits: for versions and download, clients wait ten seconds or less, and try twice.
	patience = 3 * time.Second
	// packagePatience is the same for packages, to which clients give any time, and no other try.
	packagePatience = 30 * time.Second
	// maxClients is the number of clients whose rate is remembered.
	maxClients = 16 << 10
)

var (
	errBusy      = errors.New("more requests at the same time than this proxy answers")
	errRate      = errors.New("more requests than one client may send")
	errDocuments = errors.New("many large documents are being made for other clients, or sent to them")
)

// later returns err for clients, which come back after wait, or a second at least.
func later(wait time.Duration, err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(max(wait, time.Second)), Err: err}
}

// admission holds requests to Limits.
type admission struct {
	turns    *slots.Queue  // of the requests that are answered, shared by clients
	pacing   chan struct{} // an element for each request that waits for the rate of its client
	rate     rate.Limit
	limiters memory.Cache[string, *rate.Limiter] // by client
}

func newAdmission(l Limits) *admission {
	n := cmp.Or(l.Requests, math.MaxInt32)
	return &admission{
		turns: slots.New(n, n, 0, n), pacing: make(chan struct{}, n), rate: rate.Limit(l.Rate),
		limiters: memory.Cache[string, *rate.Limiter]{Max: maxClients},
	}
}

// admit waits for a turn of the client of ctx, which is to be given back. The context that it returns has the client's
// name for other layers, and program, which is what the client says it is.
func (h *Handler) admit(
	ctx context.Context, e *Event, program string, patience time.Duration,
) (_ context.Context, client string, err error) {
	p := auth.PrincipalOf(ctx)
	client = clientOf(p, e.Client)
	if err := h.admission.enter(ctx, client, patience); err != nil {
		return ctx, client, err
	}
	asker := modproxy.Asker{Name: client, Shown: client, Program: program}
	if p.Kind != auth.Nobody && p.Kind != auth.Anonymous {
		asker.Shown, asker.Groups = e.Principal, p.RuleGroups()
		if asker.Shown == "" { // whom the connection identifies
			asker.Shown = p.String()
		}
	}
	return modproxy.WithAsker(ctx, asker), client, nil
}

// enter waits for a turn of client, or returns when to come back.
func (a *admission) enter(ctx context.Context, client string, patience time.Duration) error {
	limiter := a.limiter(client)
	paced := limiter == nil || limiter.Allow()
	if paced && a.turns.Try(client) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	if !paced {
		err = a.pace(waiting, limiter)
	}
	if err == nil && a.turns.Take(waiting, client) != nil { // Take refuses at the end of waiting
		err = later(0, errBusy)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// pace waits until limiter lets one more request pass. It does not wait if that is after the deadline of ctx.
func (a *admission) pace(ctx context.Context, limiter *rate.Limiter) error {
	select {
	case a.pacing <- struct{}{}:
		defer func() { <-a.pacing }()
	default:
		return later(0, errBusy)
	}
	if limiter.Wait(ctx) != nil {
		seconds := (1 - limiter.Tokens()) / float64(a.rate)
		return later(time.Duration(seconds*float64(time.Second)), errRate)
	}
	return nil
}

// limiter returns what limits the rate of client, or nil.
func (a *admission) limiter(client string) *rate.Limiter {
	if a.rate == 0 {
		return nil
	}
	if known, ok := a.limiters.Get(client); ok {
		return known
	}
	return a.limiters.GetOrAdd(client, rate.NewLimiter(a.rate, int(a.rate)), memory.Forever, 0)
}

// clientOf returns the name of a client: the principal if known, else the address, of version 6 the network of 2⁶⁴.
func clientOf(p auth.Principal, address string) string {
	if p.ID != "" {
		return p.Kind.String() + " " + p.ID
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		return netip.PrefixFrom(ip, 64).Masked().String() // without its zone
	}
	return address
}

const (
	largeDocument = 64 << 10 // the size from which a document counts while it is sent
	maxDocuments  = 64 << 20 // the bytes of large documents that are sent, with their compressed forms
)

// documents bounds the memory of the documents that are sent, which slow clients hold for as long as they take. One
// that several clients are sent counts once. The zero value is ready, and safe for concurrent use.
type documents struct {
	mu   sync.Mutex
	used int64
	sent map[*byte]int // how many clients are sent the document that begins there
}

// hold must be called before document is sent, and release after it. The error says when to come back.
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
