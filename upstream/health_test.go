package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

// The health of a registry has its last answer, and the worst trouble of its services and namespaces.
func TestHealth(t *testing.T) {
	out, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Egress: out})
		if err != nil {
			t.Fatal(err)
		}
		is := func(want Health) {
			t.Helper()
			if got := c.Health()["registry.example"]; got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		}
		modules, providers := c.limiter(serviceOf{"registry.example", modulesV1}), c.limiter(serviceOf{"registry.example", providersV1})
		fail := func(l *limiter, namespace string) (at time.Time) {
			l.done(&attempt{namespace: namespace, began: time.Now()}, errGateway)
			defer time.Sleep(time.Second)
			return time.Now()
		}
		is(Health{})

		answered := time.Now()
		modules.done(&attempt{namespace: "acme", began: answered}, nil)
		is(Health{Answered: answered})
		time.Sleep(time.Second)
		modules.done(&attempt{namespace: "acme", began: time.Now()}, modproxy.ErrNotFound) // an answer, too
		answered = time.Now()
		is(Health{Answered: answered})
		time.Sleep(time.Second)

		// One namespace fails; then all.
		const why = "it answered 502 Bad Gateway"
		failed := fail(modules, "acme")
		is(Health{answered, Trouble{Why: why, Failed: failed, Service: "modules.v1", Namespace: "acme"}})
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
		for _, l := range []*limiter{modules, providers} {
			for _, namespace := range []string{"", "acme", "corp"} {
				l.done(&attempt{namespace: namespace, began: time.Now()}, nil)
			}
		}
		is(Health{Answered: answered})
		if _, ok := c.Health()["other.example"]; ok {
			t.Error("a registry without a question has a health")
		}
	})
}
