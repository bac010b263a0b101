package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/store"
)

// question is the key of a document or a package.
type question interface {
	comparable
	ref() store.Ref    // the record of the answer
	registry() string  // the hostname of the registry that answers
	publisher() string // a namespace of the registry; publishers share download slots
	event(kind Kind, took time.Duration, err error) Event
	wrap(op string, err error) error // adds the question to err, unless err has it already
}

// waitFor waits for a call until limit has passed or ctx ends. The error is then a [modproxy.RetryLater].
func waitFor[V any](ctx context.Context, call *flight.Call[V], limit time.Duration) (V, error) {
	defer call.Hold(ctx)()
	var why error
	select {
	case <-call.Done():
		return call.Result()
	case <-time.After(limit):
		why = errors.New("upstream has not answered within " + limit.String() + "; the request continues")
		if err := call.LastError(); err != nil {
			why = fmt.Errorf("%w; it last failed with: %w", why, err)
		}
	case <-ctx.Done():
		why = ctx.Err()
	}
	var none V
	return none, retrySoon(why)
}

// isDone reports whether a call has ended.
func isDone[V any](call *flight.Call[V]) bool {
	select {
	case <-call.Done():
		return true
	default:
		return false
	}
}

// closeAll waits until the work of all pools has ended. If ctx ends before, closeAll ends the work, and returns an error.
func closeAll(ctx context.Context, pools ...*flight.Pool) error {
	end := func() {
		for _, p := range pools {
			p.End()
		}
	}
	defer end()
	for _, p := range pools {
		p.Stop()
	}
	if waitAll(ctx, pools) == nil {
		return nil
	}
	end()
	grace, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = waitAll(grace, pools) // work that does not notice its end is left behind
	return fmt.Errorf("the cache ended its requests and downloads before they were done: %w", ctx.Err())
}

func waitAll(ctx context.Context, pools []*flight.Pool) error {
	for _, p := range pools {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
