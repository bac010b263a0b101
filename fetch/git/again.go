package git

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

const (
	// How often a repository is asked for what it does not give because of trouble
	// that may pass.
	maxTries = 5
	// The first pause between two tries, which doubles.
	firstPause = 500 * time.Millisecond
	// The longest pause that a forge may ask for. After a longer one the fetch fails,
	// and says when it is worth while to come back.
	maxPause = 10 * time.Second
)

// passing is an error that may pass.
type passing struct {
	err   error
	after time.Duration // the forge wants to be left alone for so long; zero: it did not say
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// pauseAfter waits until what failed with err is worth another try, after so many. If
// it is not, or not within the time that is left, the result is false, with the error
// to tell.
func pauseAfter(ctx context.Context, err error, tries int) (error, bool) {
	var p *passing
	if !errors.As(err, &p) || ctx.Err() != nil {
		return err, false
	}
	if p.after > maxPause {
		return &modproxy.RetryLater{After: time.Now().Add(p.after), Err: err}, false
	}
	if tries >= maxTries {
		return err, false
	}
	pause := firstPause << (tries - 1)
	pause = max(pause/2+rand.N(pause/2+1), p.after)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return err, false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, true
	case <-ctx.Done():
		return err, false
	}
}

// mayPass marks err, why a connection was not made or was cut, if it may pass.
func mayPass(err error) error {
	if egress.MayPass(err) {
		return &passing{err: refused(err)}
	}
	return refused(err)
}
