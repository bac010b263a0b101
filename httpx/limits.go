package httpx

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// Limits bound the requests of clients. A zero field means no bound.
type Limits struct {
	// Requests is the number of requests that are answered at the same time, with those that wait for a download.
	Requests int
	// Rate is the number of requests that one client may send in a second. It is also the number that the client may send at once
	// after a pause. A client is a principal, or else an IPv4 address or an IPv6 network of 64 bits.
	Rate int
}

// maxClients is the number of clients whose rate is remembered.
const maxClients = 16 << 10

var (
	errBusy = errors.New("more requests at the same time than this proxy answers")
	errRate = errors.New("more requests than one client may send")
)

// An Admission holds requests to [Limits]. It is safe for concurrent use.
type Admission struct {
	slots    *slots.Queue    // of the requests that are answered, shared by clients
	pacing   slots.Semaphore // for requests that wait for the rate of their client
	rate     rate.Limit
	limiters memory.Cache[string, *rate.Limiter] // by client
}

// NewAdmission returns an Admission that has admitted no request.
func NewAdmission(l Limits) *Admission {
	n := cmp.Or(l.Requests, math.MaxInt32)
	return &Admission{
		slots: slots.New(n, n, 0, n), pacing: slots.NewSemaphore(n), rate: rate.Limit(l.Rate),
		limiters: memory.Cache[string, *rate.Limiter]{Max: maxClients},
	}
}

// Admit waits until the client may send a request: until its rate allows it, and a slot is free. The client is the principal of ctx
// ([auth.PrincipalOf]), or without one the address in e. program is its User-Agent. Admit returns the client's name, the argument of
// [Admission.Leave], and a context with the client for other layers ([modproxy.WithClient]). The caller must call Leave, unless
// there is an error: a [modproxy.RetryLater] if the client would wait for longer than wait, or the error of ctx.
func (a *Admission) Admit(
	ctx context.Context, e *Event, program string, wait time.Duration,
) (_ context.Context, client string, err error) {
	p := auth.PrincipalOf(ctx)
	client = clientOf(p, e.Client)
	if err := a.enter(ctx, client, wait); err != nil {
		return ctx, client, err
	}
	asker := modproxy.Client{Name: client, DisplayName: client, Program: program}
	if p.Kind != auth.Nobody && p.Kind != auth.Anonymous {
		asker.DisplayName, asker.Groups = e.Principal, p.RuleGroups()
		if asker.DisplayName == "" { // a principal that the connection identifies
			asker.DisplayName = p.String()
		}
	}
	return modproxy.WithClient(ctx, asker), client, nil
}

// Leave returns the slot of client, as Admit has returned it.
func (a *Admission) Leave(client string) { a.slots.Give(client) }

// enter waits for a slot of client, or returns when to come back.
func (a *Admission) enter(ctx context.Context, client string, wait time.Duration) error {
	limiter := a.limiter(client)
	paced := limiter == nil || limiter.Allow()
	if paced && a.slots.Try(client) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var err error
	if !paced {
		err = a.pace(waiting, limiter)
	}
	if err == nil && a.slots.Take(waiting, client) != nil { // it refuses at the deadline, and when too many wait
		err = Later(0, errBusy)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// pace waits until limiter lets one more request pass. It does not wait if that is after the deadline of ctx.
func (a *Admission) pace(ctx context.Context, limiter *rate.Limiter) error {
	give, ok := a.pacing.Try()
	if !ok {
		return Later(0, errBusy)
	}
	defer give()
	if limiter.Wait(ctx) != nil {
		seconds := (1 - limiter.Tokens()) / float64(a.rate)
		return Later(time.Duration(seconds*float64(time.Second)), errRate)
	}
	return nil
}

// limiter returns the limiter of the rate of client, or nil.
func (a *Admission) limiter(client string) *rate.Limiter {
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
