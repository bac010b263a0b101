package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/tfconfig"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upstreams has every registry.
type upstreams struct{}

func (upstreams) HasUpstream(string) bool { return true }

// straight routes every module to itself.
type straight struct{}

func (straight) Upstream(m modproxy.Address) (modproxy.Address, error) { return m, nil }

// busy is a cache whose upstream has a rate limit.
type busy struct {
	mirror.Cache
	mu       sync.Mutex
	requests []string
	later    time.Duration // the wait of the first two requests for versions and the first one for a package
}

// count records a request, and returns the number of such requests.
func (b *busy) count(request string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, request)
	return strings.Count(strings.Join(b.requests, " "), request)
}

func (b *busy) Versions(_ context.Context, _ modproxy.Address) (*modproxy.Versions, error) {
	n := b.count("versions")
	if n <= 2 {
		return nil, &modproxy.RetryLater{After: time.Now().Add(b.later), Err: errors.New("busy")}
	}
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"1.1.0"}]}]}`))
	if err == nil {
		v.Stale = n == 3
	}
	return v, err
}

func (b *busy) Refresh(context.Context, modproxy.Address) (cache.Refreshed, error) {
	b.count("refresh")
	return cache.Refreshed{}, nil
}

func (b *busy) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if b.count("package "+v.Version) == 1 {
		return nil, &modproxy.RetryLater{After: time.Now().Add(b.later), Err: errors.New("busy")}
	}
	return nil, fmt.Errorf("%w: no such package", modproxy.ErrNotFound)
}

// newEngine returns an engine with a cache, and a request for a module by one client.
func newEngine(t *testing.T, b *busy) (*mirror.Engine, mirror.Request) {
	book := ledgertest.Open(t, t.TempDir())
	e := &mirror.Engine{
		Cache: b, Ledger: book, Gate: policy.NewGate(book, nil), Upstreams: upstreams{}, Routes: straight{}, Reader: tfconfig.NewReader(nil, 0),
	}
	return e, mirror.Request{Starts: []closure.Start{{Client: tfconfig.OpenTofu, Call: tfconfig.Call{Source: vpc.String()}}}}
}

// Fetch repeats requests for as long as the registry says, and does not accept a stale list.
func TestFetchRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{later: time.Minute}
		e, in := newEngine(t, b)
		var problems []string
		beats := 0
		done, err := e.Fetch(t.Context(), in, func(line mirror.Line) {
			if line.Problem != nil {
				problems = append(problems, line.Problem.String())
			}
			if line.Progress != nil {
				beats++
			}
		})
		must(t, err)
		if got, want := strings.Join(b.requests, ", "), "versions, versions, versions, refresh, versions, package 1.1.0, package 1.1.0"; got != want {
			t.Errorf("requests %s, want %s", got, want)
		}
		if len(problems) != 1 || !strings.Contains(problems[0], "not found: no such package") || done.Problems != 1 || done.Left != 0 {
			t.Errorf("problems %q, done %+v", problems, done)
		}
		if done.Seconds < 180 || beats < 170 { // without lines, a proxy before modproxy would end the connection
			t.Errorf("it took %v s, with %d lines of progress", done.Seconds, beats)
		}
	})
}

// A wait that is too long is a problem.
func TestFetchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{later: time.Hour}
		e, in := newEngine(t, b)
		done, err := e.Fetch(t.Context(), in, func(mirror.Line) {})
		must(t, err)
		if len(b.requests) != 1 || done.Problems != 1 || done.Seconds > 60 {
			t.Errorf("requests %q, done %+v", b.requests, done)
		}
	})
}

// The choice of a request chooses among the versions that a constraint selects.
func TestChoice(t *testing.T) {
	for _, test := range []struct {
		choice     mirror.Choice
		constraint string
		want       string
	}{
		{mirror.Choice{Newest: 2}, "", "1.1.0 1.0.0"},
		{mirror.Choice{Newest: 9}, "< 1.1", "1.0.0"},
		{mirror.Choice{All: true}, "", "1.1.0 1.0.0"},
		{mirror.Choice{All: true}, ">= 1.1", "1.1.0"},
	} {
		b := &busy{requests: []string{"versions", "versions", "versions"}}
		e, in := newEngine(t, b)
		in.Choice, in.Starts[0].Version = test.choice, test.constraint
		_, err := e.Fetch(t.Context(), in, func(mirror.Line) {})
		must(t, err)
		all := strings.Join(b.requests, " ")
		for _, version := range []string{"1.0.0", "1.1.0"} {
			if strings.Contains(all, "package "+version) != strings.Contains(test.want, version) {
				t.Errorf("%+v of %q: requests %s, want %s", test.choice, test.constraint, all, test.want)
			}
		}
	}
}
