package prefetch_test

import (
	"context"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// rights are those of a client whose token is revoked.
type rights struct{ revoked, refused chan struct{} }

func (rights) Rights(context.Context) string { return "" }

func (r rights) Still(context.Context) error {
	select {
	case <-r.revoked:
		r.refused <- struct{}{}
		return modproxy.ErrUnauthorized
	default:
		return nil
	}
}

// No request is sent for a client after its token was revoked.
func TestRevoked(t *testing.T) {
	token := rights{make(chan struct{}), make(chan struct{}, 100)}
	w, r := newWorldFor(t, chain, token)
	w.Before = func(_ context.Context, op string, m modproxy.Address, _ string) error {
		if op == "package" && m.Name == "one" {
			close(token.revoked)
		}
		return nil
	}
	ask(t, r, at("one", "1.0.0"))
	select {
	case <-token.refused:
	case <-time.After(time.Minute):
		t.Error("it is not asked whether the token is good")
	}
	r.Close()
	if n := w.Calls("versions"); n != 0 {
		t.Errorf("versions were asked for %d times", n)
	}
}
