package upstream

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/upstream/ask"
)

// The services of a host have one health. A failure or pause of providers.v1 does not affect modules.v1.
func TestServicesOfAHost(t *testing.T) {
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
		asks := func(s service, outcome error) (sent int, err error) {
			_, err = ask.Do(t.Context(), c.limitsOf(serviceOf{"a.example", s}).Limiter, "acme", func(context.Context) (int, error) {
				sent++
				return 0, outcome
			})
			return sent, err
		}
		wish := &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: &fetch.Answered{Where: "a.example", Status: "429", Code: http.StatusTooManyRequests}}
		asks(providersV1, wish)
		if sent, err := asks(providersV1, nil); sent > 0 || err == nil {
			t.Errorf("providers are asked all the same: %v", err)
		}
		if sent, err := asks(modulesV1, nil); sent != 1 || err != nil {
			t.Errorf("modules: sent %d times: %v", sent, err)
		}
		h := c.Health()["a.example"]
		if now := time.Now(); h.Answered != now || h.Down != now || h.Service != "providers.v1" || h.Part != "" {
			t.Errorf("health %+v", h)
		}
		if _, ok := c.Health()["other.example"]; ok {
			t.Error("a registry without a question has a health")
		}
	})
}
