package admin_test

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
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// straight routes every module to itself.
type straight struct{}

func (straight) Upstream(m modproxy.Address) (modproxy.Address, error) { return m, nil }

// busy is a cache whose upstream is in trouble for a while.
type busy struct {
	admin.Cache
	mu      sync.Mutex
	said    []string
	later   time.Duration      // how long to wait, twice
	waiting context.CancelFunc // called when a package is waited for, which never comes
}

func (b *busy) say(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, what)
	return strings.Count(strings.Join(b.said, " "), what)
}

func (b *busy) Versions(_ context.Context, _ modproxy.Address) (*modproxy.Versions, error) {
	n := b.say("versions")
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
	b.say("refresh")
	return cache.Refreshed{}, nil
}

func (b *busy) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if b.waiting != nil {
		b.waiting()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if b.say("package "+v.Version) == 1 {
		return nil, &modproxy.RetryLater{After: time.Now().Add(b.later), Err: errors.New("busy")}
	}
	return nil, fmt.Errorf("%w: no such package", modproxy.ErrNotFound)
}

// mirroring returns a server with a cache, and what to ask it for: a module, by one client.
func mirroring(t *testing.T, b *busy) (*admin.Server, admin.Mirror) {
	server := deciding(t)
	server.Cache, server.Upstreams, server.Routing, server.Configurations = b, upstreams{}, straight{}, &tfconfig.Reader{}
	return server, admin.Mirror{Starts: []closure.Start{{Client: tfconfig.OpenTofu, Call: tfconfig.Call{Source: vpc.String()}}}}
}

// A mirror comes back as long as it is told to, and takes no list for new that is only kept.
func TestMirrorIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{later: time.Minute}
		server, in := mirroring(t, b)
		var problems []string
		beats := 0
		done, err := admin.MirrorFetch.Ask(t.Context(), admin.Inside(server), in, func(line admin.MirrorLine) error {
			if line.Problem != nil {
				problems = append(problems, line.Problem.String())
			}
			if line.Progress != nil {
				beats++
			}
			return nil
		})
		must(t, err)
		if got, want := strings.Join(b.said, ", "), "versions, versions, versions, refresh, versions, package 1.1.0, package 1.1.0"; got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
		if len(problems) != 1 || !strings.Contains(problems[0], "not found: no such package") || done.Problems != 1 || done.Left != 0 {
			t.Errorf("problems %q, done %+v", problems, done)
		}
		if done.Seconds < 180 || beats < 170 { // who waits hears of it, or what stands between would end the connection
			t.Errorf("it took %v s, and told so %d times", done.Seconds, beats)
		}
	})
}

// What takes longer than a person waits is a problem, and nothing else waits for it.
func TestMirrorGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{later: time.Hour}
		server, in := mirroring(t, b)
		done, err := admin.MirrorFetch.Ask(t.Context(), admin.Inside(server), in, func(admin.MirrorLine) error { return nil })
		must(t, err)
		if len(b.said) != 1 || done.Problems != 1 || done.Seconds > 60 {
			t.Errorf("asked for %q, done %+v", b.said, done)
		}
	})
}

// A mirror ends with who asked for it.
func TestMirrorEnds(t *testing.T) {
	for where, client := range map[string]func(*testing.T, *admin.Server) *admin.Client{
		"inside":  func(_ *testing.T, s *admin.Server) *admin.Client { return admin.Inside(s) },
		"outside": outside,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		server, in := mirroring(t, &busy{waiting: cancel, said: []string{"versions", "versions", "versions"}})
		_, err := admin.MirrorFetch.Ask(ctx, client(t, server), in, func(admin.MirrorLine) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// Of the versions that a constraint selects, those are chosen that are wanted.
func TestChoice(t *testing.T) {
	for _, test := range []struct {
		choice     admin.Choice
		constraint string
		want       string
	}{
		{admin.Choice{Newest: 2}, "", "1.1.0 1.0.0"},
		{admin.Choice{Newest: 9}, "< 1.1", "1.0.0"},
		{admin.Choice{All: true}, "", "1.1.0 1.0.0"},
		{admin.Choice{All: true}, ">= 1.1", "1.1.0"},
	} {
		b := &busy{said: []string{"versions", "versions", "versions"}}
		server, in := mirroring(t, b)
		in.Choice, in.Starts[0].Version = test.choice, test.constraint
		_, err := admin.MirrorFetch.Ask(t.Context(), admin.Inside(server), in, func(admin.MirrorLine) error { return nil })
		must(t, err)
		all := strings.Join(b.said, " ")
		for _, version := range []string{"1.0.0", "1.1.0"} {
			if strings.Contains(all, "package "+version) != strings.Contains(test.want, version) {
				t.Errorf("%+v of %q: asked for %s, want %s", test.choice, test.constraint, all, test.want)
			}
		}
	}
}
