package admin_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/tfconfig"
)

// straight routes every module to itself.
type straight struct{}

func (straight) Upstream(m modproxy.Address) (modproxy.Address, error) { return m, nil }

// waiting is a cache whose packages never arrive.
type waiting struct {
	admin.Cache
	requested context.CancelFunc // called by Package
}

func (w *waiting) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"}]}]}`))
}

func (w *waiting) Package(ctx context.Context, _ modproxy.Ref) (*modproxy.Package, error) {
	w.requested()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestMirrorEnds: a mirror run ends when the request of its client ends.
func TestMirrorEnds(t *testing.T) {
	for where, client := range map[string]func(*testing.T, *admin.Server) *admin.Client{
		"inside":  func(_ *testing.T, s *admin.Server) *admin.Client { return admin.Inside(s) },
		"outside": outside,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		server := deciding(t)
		server.Cache, server.Upstreams, server.Routing, server.Configurations = &waiting{requested: cancel}, upstreams{}, straight{}, tfconfig.NewReader(nil, 0)
		in := mirror.Request{Starts: []closure.Start{{Client: tfconfig.OpenTofu, Call: tfconfig.Call{Source: vpc.String()}}}}
		_, err := admin.MirrorFetch.Call(ctx, client(t, server), in, func(mirror.Line) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", where, err)
		}
	}
}
