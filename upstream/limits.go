package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/upstream/ask"
)

// limits bounds the questions for one service of a registry.
type limits struct {
	*ask.Limiter                 // its parts are namespaces
	largeAnswers slots.Semaphore // slots for large answers; a question that uses one also has a slot of Limiter
	side         *slots.Queue    // of modules.v1 and providers.v1, for the questions beside the protocol
}

const (
	maxLargeAnswers = 2    // large answers of one registry that are read at a time
	maxSideRequests = 4    // questions beside the protocol to one registry at a time; the other slots remain for the protocol
	maxWaiting      = 1024 // questions beside the protocol that wait for a slot
)

// limitsOf returns the limits of a service. The services of a host share slots, the rate and the queue for it, but not
// outages.
func (c *Client) limitsOf(s serviceOf) *limits {
	if l, ok := c.asking.Get(s); ok {
		return l
	}
	o := ask.Options{Host: s.host, Rate: c.cfg.Hosts[s.host].Rate, Hedges: c.cfg.Egress.Hedges()}
	if s.service != modulesV1 {
		o.Share = c.limitsOf(serviceOf{s.host, modulesV1}).Limiter
	}
	l := &limits{ask.New(o), slots.NewSemaphore(maxLargeAnswers), slots.New(maxSideRequests, maxSideRequests, 0, maxWaiting)}
	return c.asking.GetOrAdd(s, l, memory.Forever, 0)
}

// Health returns the health of all registries that received a question, by normalised hostname. It sends no request.
func (c *Client) Health() map[string]ask.Health {
	all := map[string]ask.Health{}
	for _, s := range c.asking.Keys() {
		if l, ok := c.asking.Peek(s); ok {
			h := l.Limiter.Health()
			h.Service = string(s.service)
			all[s.host] = all[s.host].Join(h)
		}
	}
	return all
}

// sideRequest waits until a question beside the protocol may be sent. The caller calls leave when the answer is complete.
func (l *limits) sideRequest(ctx context.Context) (leave func(), err error) {
	slot, err := l.side.Await(ctx, "", modproxy.BroughtForward(ctx))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, ask.ErrBusy, err)
	}
	return slot.Give, nil
}

// ordinaryAnswer is the size in bytes up to which any number of answers is read at once. Most answers have about 10
// KiB.
const ordinaryAnswer = 512 << 10

// receive reads an answer. Decoding a large answer takes several times its size in memory, so large answers wait for a
// slot, which leave returns.
func (l *limits) receive(ctx context.Context, answer io.Reader) (document []byte, leave func(), err error) {
	var all bytes.Buffer
	n, err := all.ReadFrom(io.LimitReader(answer, ordinaryAnswer))
	if err != nil || n < ordinaryAnswer {
		return all.Bytes(), func() {}, err
	}
	leave, err = l.largeAnswers.Take(ctx)
	if err != nil {
		return nil, func() {}, fmt.Errorf("%w: %d other large answers of this registry are being read: %w",
			modproxy.ErrUnavailable, maxLargeAnswers, err)
	}
	_, err = all.ReadFrom(answer)
	return all.Bytes(), leave, err
}
