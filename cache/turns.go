package cache

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

// turns are what fetches wait for. A publisher, the namespace of a registry, has no
// more than three quarters of them, and of the places to wait: packages that do not
// come to an end hold up those of others no longer than these themselves take.
type turns struct {
	all   chan struct{}
	share int // of one publisher
	queue int // fetches of one publisher, those that wait included

	mu sync.Mutex
	of map[publisher]*share
}

// publisher is who can put modules into a registry.
type publisher struct{ host, namespace string }

// share is what one publisher has of the turns, while it has fetches.
type share struct {
	turns   chan struct{}
	fetches int
}

// errCrowded is about the moment, and not about the package.
var errCrowded = errors.New("too many packages are being fetched, or wait for it")

func newTurns(n int) *turns {
	return &turns{
		all: make(chan struct{}, n), share: max(1, n*3/4), queue: maxFetching * 3 / 4,
		of: map[publisher]*share{},
	}
}

// take waits for a turn of m, or until ending; give gives it back.
func (t *turns) take(ending <-chan struct{}, m modproxy.Module) (give func(), err error) {
	p := publisher{m.Host, m.Namespace}
	own, err := t.join(p)
	if err != nil {
		return nil, err
	}
	select {
	case own.turns <- struct{}{}:
	case <-ending:
		t.leave(p)
		return nil, errClosing
	}
	select {
	case t.all <- struct{}{}:
	case <-ending:
		<-own.turns
		t.leave(p)
		return nil, errClosing
	}
	return func() {
		<-t.all
		<-own.turns
		t.leave(p)
	}, nil
}

func (t *turns) join(p publisher) (*share, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[p]
	if own == nil {
		own = &share{turns: make(chan struct{}, t.share)}
		t.of[p] = own
	}
	if own.fetches >= t.queue {
		return nil, &modproxy.RetryLater{
			After: time.Now().Add(time.Second),
			Err:   fmt.Errorf("%w: %d of %s/%s", errCrowded, own.fetches, p.host, p.namespace),
		}
	}
	own.fetches++
	return own, nil
}

func (t *turns) leave(p publisher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[p].fetches--; t.of[p].fetches == 0 {
		delete(t.of, p)
	}
}
