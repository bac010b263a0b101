package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// atOnce is the number of clients that request the same new package.
const atOnce = 200

// measureCost lets them request it, and counts the requests to upstream.
func (b *bench) measureCost(ctx context.Context, r *report) error {
	if err := b.startProxy(ctx); err != nil {
		return err
	}
	b.up.reset()
	b.say("%d clients at once", atOnce)
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = ask(ctx, b.proxyURL+stampede.path("package"), "identity") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.Stampede = &stampedeReport{Clients: atOnce, Upstream: b.up.count()}
	for kind, n := range r.Stampede.Upstream {
		if n != 1 {
			return fmt.Errorf("%d clients at once: upstream was asked for one %s %d times", atOnce, kind, n)
		}
	}
	return nil
}
