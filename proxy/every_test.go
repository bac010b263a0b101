package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// every makes no call after its end, also if the end comes between two calls or during one.
func TestEveryEnds(t *testing.T) {
	for _, during := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			calls, goOn := 0, make(chan bool)
			stop := every(ctx, time.Second, func() {
				if calls++; calls == 3 && during {
					<-goOn
				}
			})
			time.Sleep(3500 * time.Millisecond)
			cancel()
			stop()
			close(goOn)
			time.Sleep(time.Minute)
			if synctest.Wait(); calls != 3 {
				t.Errorf("%d calls in 3.5 s, the end during one of them: %v; want 3", calls, during)
			}
		})
	}
}
