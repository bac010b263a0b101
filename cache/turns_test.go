package cache_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// The packages of one publisher that do not come to an end leave turns, and places
// to wait, for those of others.
func TestOnePublisherDoesNotTakeAllTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.next.change(func(n *next) { n.delay = time.Hour })
		var stalled sync.WaitGroup
		for i := range 1100 {
			m := modproxy.Module{Host: vpc.Host, Namespace: "stalls", Name: fmt.Sprintf("m%d", i), System: "aws"}
			stalled.Go(func() { f.Package(t.Context(), m, "1.0.0") })
		}
		synctest.Wait()
		f.next.change(func(n *next) { n.delay = time.Second })
		start := time.Now()
		f.fetch(t, "1.0.0")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("a package of another publisher took %v", took)
		}
		var later *modproxy.RetryLater
		m := modproxy.Module{Host: vpc.Host, Namespace: "stalls", Name: "one-more", System: "aws"}
		if _, err := f.Package(t.Context(), m, "1.0.0"); !errors.As(err, &later) {
			t.Errorf("one more of the publisher: %v", err)
		}
		mustClose(t, f.Registry)
		stalled.Wait()
	})
}
