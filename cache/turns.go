package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fair"
)

// turns are what fetches wait for. A publisher, the namespace of a registry, has no
// more than three quarters of them, the last one is for publishers that have none, and
// they go to those first that have fewest: packages that do not come to an end hold up
// those of others no longer than these themselves take.
type turns struct{ *fair.Turns }

// errCrowded is about the moment, and not about the package.
var errCrowded = errors.New("too many packages are being fetched, or wait for it")

func newTurns(n int) *turns {
	return &turns{fair.New(n, max(1, n*3/4), n/8, maxFetching-n)}
}

// take waits for a turn of m, or until ending ends; give gives it back.
func (t *turns) take(ending context.Context, m modproxy.Module) (give func(), err error) {
	publisher := m.Host + "/" + m.Namespace
	err = t.Take(ending, publisher)
	switch {
	case errors.Is(err, fair.ErrCrowded):
		return nil, &modproxy.RetryLater{
			After: time.Now().Add(time.Second),
			Err:   fmt.Errorf("%w: most of them of %s", errCrowded, publisher),
		}
	case err != nil:
		return nil, errClosing
	}
	return func() { t.Give(publisher) }, nil
}
