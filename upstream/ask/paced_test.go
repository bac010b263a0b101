package ask

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// A question that keeps to a pace is sent once, however late its answer is, unless a client begins to wait for it.
func TestPacedOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		ctx     func(context.Context) context.Context
		forward bool
		once    bool
	}{
		{"paced", func(ctx context.Context) context.Context { return Paced(modproxy.InBackground(ctx)) }, false, true},
		{"brought forward", func(ctx context.Context) context.Context { return Paced(modproxy.InBackground(ctx)) }, true, false},
		{"for a client", Paced, false, false},
		{"of another kind", modproxy.InBackground, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int32
				ctx := test.ctx(t.Context())
				if test.forward {
					modproxy.BringForward(ctx)
				}
				_, err := Do(ctx, New(Options{Hedges: true}), "acme", func(ctx context.Context) (int, error) {
					sends.Add(1)
					select {
					case <-time.After(2900 * time.Millisecond):
					case <-ctx.Done():
					}
					return 0, nil
				})
				if n := sends.Load(); (n == 1) != test.once || err != nil {
					t.Errorf("sent %d times, %v; once: %t", n, err, test.once)
				}
			})
		})
	}
}
