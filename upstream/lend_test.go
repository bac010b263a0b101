package upstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
)

// While a download waits for a server that does not answer, its meter reports the wait for each kind of request, so
// that others can use its slot.
func TestFetchesReportThatTheyWait(t *testing.T) {
	u := registrytest.New(t, fixture(`
-- modules/acme/git/aws/1.0.0 --
git::{url}/acme/git.git?ref=v1.0.0
-- repos/acme/git.git@v1.0.0/main.tf --
-- modules/acme/archive/aws/1.0.0 --
{url}/archives/plain?archive=tar.gz
-- modules/acme/page/aws/1.0.0 --
{url}/get/page
-- get/page --
{url}/archives/plain?archive=tar.gz
-- archives/plain.tar.gz/main.tf --
-- providers/acme/toy/1.0.0 --
`))
	module := func(name string) modproxy.Ref {
		return modproxy.Address{Host: u.Host, Namespace: "acme", Name: name, System: "aws"}.At("1.0.0")
	}
	for kind, v := range map[registrytest.Kind]modproxy.Ref{
		registrytest.Discovery:        module("git"),
		registrytest.Download:         module("git"),
		registrytest.Git:              module("git"),
		registrytest.Archive:          module("archive"),
		registrytest.Get:              module("page"),
		registrytest.ProviderDownload: toyOf(u).At("1.0.0"),
		registrytest.Sums:             toyOf(u).At("1.0.0"),
		registrytest.Zip:              toyOf(u).At("1.0.0").ForPlatform(linux),
	} {
		t.Run(string(kind), func(t *testing.T) {
			c := newClient(t, u, nil)
			u.Reset()
			u.Set(kind, registrytest.Knobs{Hold: true})
			meter := &modproxy.Meter{}
			ctx, cancel := context.WithCancel(modproxy.WithMeter(t.Context(), meter))
			ended := make(chan error, 1)
			go func() {
				p, err := c.Package(ctx, v)
				if err == nil {
					err = p.Close()
				}
				ended <- err
			}()
			for u.Count(kind) == 0 {
				select {
				case err := <-ended:
					t.Fatalf("it is not asked for: %v", err)
				case <-time.After(time.Millisecond):
				}
			}
			if _, receiving := meter.Received(); !receiving {
				t.Error("nothing is waited for")
			}
			cancel()
			u.Set(kind, registrytest.Knobs{})
			<-ended
		})
	}
}
