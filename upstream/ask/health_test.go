package ask

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// The health of a server has its last answer, and the worst trouble of its services and parts.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modules := New(Options{})
		providers := New(Options{Share: modules})
		is := func(want Health) {
			t.Helper()
			var got Health
			for service, l := range map[string]*Limiter{"modules.v1": modules, "providers.v1": providers} {
				h := l.Health()
				h.Service = service
				got = got.Join(h)
			}
			if got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		}
		fail := func(l *Limiter, part string) (at time.Time) {
			l.done(&attempt{part: part, began: time.Now()}, errGateway)
			defer time.Sleep(time.Second)
			return time.Now()
		}
		is(Health{})

		answered := time.Now()
		modules.done(&attempt{part: "acme", began: answered}, nil)
		is(Health{Answered: answered})
		time.Sleep(time.Second)
		modules.done(&attempt{part: "acme", began: time.Now()}, modproxy.ErrNotFound) // an answer, too
		answered = time.Now()
		is(Health{Answered: answered})
		time.Sleep(time.Second)

		// One part fails; then all.
		const why = "it answered 502 Bad Gateway"
		failed := fail(modules, "acme")
		is(Health{answered, Trouble{Why: why, Failed: failed, Service: "modules.v1", Part: "acme"}})
		failed = fail(modules, "corp")
		is(Health{answered, Trouble{Why: why, Failed: failed, Service: "modules.v1"}})

		// A service without questions is worse than one with a failure.
		for range outageFailures {
			failed = fail(providers, "")
		}
		is(Health{answered, Trouble{Why: why, Failed: failed, Down: failed, Service: "providers.v1"}})
		fail(modules, "acme")
		is(Health{answered, Trouble{Why: why, Failed: failed, Down: failed, Service: "providers.v1"}})

		answered = time.Now()
		for _, l := range []*Limiter{modules, providers} {
			for _, part := range []string{"", "acme", "corp"} {
				l.done(&attempt{part: part, began: time.Now()}, nil)
			}
		}
		is(Health{Answered: answered})
	})
}
