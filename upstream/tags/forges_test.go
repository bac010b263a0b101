package tags_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/upstream/ask"
	"github.com/modproxy/modproxy/upstream/tags"
)

// forges is a getter of repositories with the tag v1.0.0. fails returns the failure of a repository.
type forges struct {
	fetch.Getter
	fails func(ctx context.Context, url string) error
	asked atomic.Int32
}

func (*forges) Check(context.Context, fetch.Source) error { return nil }

func (f *forges) Tags(ctx context.Context, s fetch.Source, _ ...string) ([]fetch.Tag, error) {
	f.asked.Add(1)
	return []fetch.Tag{{Name: "v1.0.0", Commit: strings.Repeat("1", 40)}}, f.fails(ctx, s.URL)
}

func (f *forges) NamedTags(ctx context.Context, s fetch.Source, names ...string) ([]fetch.Tag, error) {
	return f.Tags(ctx, s, names...)
}

func newRegistryOf(t testing.TB, f *forges, lines ...line) *tags.Registry {
	t.Helper()
	return parsed(t, &fetch.Table{Getters: map[string]fetch.Getter{"git": f}}, lines...)
}

// A forge that is down, or does not answer, receives few questions, and one that is down delays no client. Other forges are asked as before.
func TestForgesApart(t *testing.T) {
	refuses := func(context.Context) error {
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp",
			Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	}
	for name, test := range map[string]struct {
		scheme string
		fails  func(context.Context) error
		why    string
		hangs  bool // a question ends with its context: a slow forge can still answer
	}{
		"refuses": {"https", refuses, "connection refused by 192.0.2.1:443", false},
		"no answer to git": {"ssh", func(context.Context) error {
			return &fetch.NoAnswer{Why: "it did not answer git", Err: fmt.Errorf("%w: git ended with status 128", modproxy.ErrUnavailable)}
		}, "it did not answer git", false},
		"hangs":          {"https", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, "it did not answer in time", true},
		"hangs over ssh": {"ssh", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, "it did not answer in time", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var up atomic.Bool
				f := &forges{fails: func(ctx context.Context, url string) error {
					if strings.Contains(url, "down.test") && !up.Load() {
						return test.fails(ctx)
					}
					return nil
				}}
				r := newRegistryOf(t, f, line{"down/{name}/aws", "git::" + test.scheme + "://down.test/{name}.git", "", ""},
					line{"up/{name}/aws", "git::https://up.test/{name}.git", "", ""})
				asks := func(address string) (time.Duration, error) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					began := time.Now()
					_, err := r.Versions(ctx, moduleOf(address))
					return time.Since(began), err
				}
				for i := range 12 {
					go asks(fmt.Sprintf("down/m%d/aws", i%6))
					time.Sleep(6 * time.Second)
					if took, err := asks("up/a/aws"); err != nil || took > 0 {
						t.Fatalf("another forge, after %d questions: %v after %v", i+1, err, took)
					}
				}
				before := f.asked.Load()
				took, err := asks("down/other/aws")
				if !errors.Is(err, modproxy.ErrUnavailable) || took > ask.Within && !test.hangs {
					t.Errorf("error %v after %v", err, took)
				}
				if n := f.asked.Load() - before; n > 2 {
					t.Errorf("it received %d more questions", n)
				}
				health := r.Health()
				if h := health["down.test"]; h.Down.IsZero() || !strings.Contains(h.Why, test.why) {
					t.Errorf("its health: %+v", h)
				}
				if h := health["up.test"]; h.Why != "" || h.Answered.IsZero() {
					t.Errorf("the health of the other: %+v", h)
				}
				up.Store(true)
				time.Sleep(2 * time.Minute)
				if _, err := asks("down/other/aws"); err != nil {
					t.Errorf("after the outage: %v", err)
				}
				if h := r.Health()["down.test"]; h.Why != "" {
					t.Errorf("its health after the outage: %+v", h)
				}
			})
		})
	}
}

// A repository that fails affects no other repository of its forge.
func TestBrokenRepository(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forges{fails: func(_ context.Context, url string) error {
			if strings.Contains(url, "/broken") {
				return &fetch.Answered{Where: "https://git.test", Status: "502", Code: 502}
			}
			return nil
		}}
		r := newRegistryOf(t, f, line{"acme/{name}/aws", "git::https://git.test/acme/{name}.git", "", ""})
		for range 10 {
			go r.Versions(t.Context(), moduleOf("acme/broken/aws"))
			time.Sleep(time.Second)
			began := time.Now()
			if _, err := r.Versions(t.Context(), moduleOf("acme/vpc/aws")); err != nil || time.Since(began) > 0 {
				t.Errorf("error %v after %v", err, time.Since(began))
			}
		}
		if h := r.Health()["git.test"]; h.Part != "acme/broken.git" || h.Down.IsZero() {
			t.Errorf("health %+v", h)
		}
		time.Sleep(time.Minute)
	})
}

func TestOrigin(t *testing.T) {
	r := newRegistryOf(t, &forges{}, line{"acme/{name}/aws", "git::https://git.test:8443/acme/{name}.git", "", ""},
		line{"acme/vpc/google", "git::ssh://me@git.test/vpc.git", "", ""}, line{"acme/vpc/azure", "github.com/acme/vpc", "", ""})
	for _, test := range []struct {
		module modproxy.Address
		want   string
	}{
		{moduleOf("acme/vpc/aws"), "https://git.test:8443"}, {moduleOf("acme/vpc/google"), "ssh://git.test"},
		{moduleOf("acme/vpc/azure"), "https://github.com"}, {moduleOf("corp/vpc/aws"), host},
		{modproxy.Address{Host: "other.test", Namespace: "acme", Name: "vpc", System: "aws"}, "other.test"},
		{modproxy.NewProvider(host, "acme", "toy"), host},
	} {
		if got := r.Origin(test.module); got != test.want {
			t.Errorf("%v: %q, want %q", test.module, got, test.want)
		}
	}
}

// until waits for a condition.
func until(ok func() bool) {
	for !ok() {
		time.Sleep(time.Millisecond)
	}
}

const twoModules = `
-- repos/vpc.git@v1.0.0/main.tf --
output "v" { value = 1 }
-- repos/dns.git@v1.0.0/main.tf --
output "v" { value = 1 }
`

// forgePair returns a registry with modules slow/vpc/aws and slow/dns/aws of one forge, and other/vpc/aws of another.
func forgePair(t testing.TB) (r *tags.Registry, slow, other *registrytest.Upstream) {
	t.Helper()
	slow, other = registrytest.New(t, txtar.Parse([]byte(twoModules))), registrytest.New(t, txtar.Parse([]byte(twoModules)))
	return newRegistry(t, slow, line{"slow/{name}/aws", "git::URL/{name}.git", "", ""},
		line{"other/{name}/aws", "git::" + other.URL + "/{name}.git", "", ""}), slow, other
}

func hostOf(u *registrytest.Upstream) string { return strings.TrimPrefix(u.URL, "https://") }

// During the pause that a forge asks for, it is asked nothing. Other forges are asked as before.
func TestForgeAsksForAPause(t *testing.T) {
	r, slow, _ := forgePair(t)
	slow.Set(registrytest.Git, registrytest.Knobs{Status: 429, RetryAfter: "3000", Times: 1})
	pause := time.Now().Add(3000 * time.Second)
	for _, address := range []string{"slow/vpc/aws", "slow/vpc/aws", "slow/dns/aws"} {
		_, err := r.Versions(t.Context(), moduleOf(address))
		if later, ok := errors.AsType[*modproxy.RetryLater](err); !ok || later.After.Before(pause) {
			t.Errorf("%s: error %v", address, err)
		}
	}
	if n := slow.Count(registrytest.Git); n != 1 {
		t.Errorf("the forge received %d questions", n)
	}
	if h := r.Health()[hostOf(slow)]; h.Down.IsZero() || h.Part != "" {
		t.Errorf("its health: %+v", h)
	}
	if _, err := r.Versions(t.Context(), moduleOf("other/vpc/aws")); err != nil {
		t.Errorf("another forge: %v", err)
	}
}

// A forge that fails is down until it answers again.
func TestForgeIsDown(t *testing.T) {
	r, slow, _ := forgePair(t)
	slow.Set(registrytest.Git, registrytest.Knobs{Status: 502})
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for _, address := range []string{"slow/vpc/aws", "slow/dns/aws"} {
		asking.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Versions(ctx, moduleOf(address)); !errors.Is(err, modproxy.ErrUnavailable) {
					t.Errorf("%s: error %v", address, err)
				}
			}
		})
	}
	until(func() bool { h := r.Health()[hostOf(slow)]; return !h.Down.IsZero() && h.Part == "" })
	if _, err := r.Versions(t.Context(), moduleOf("other/vpc/aws")); err != nil {
		t.Errorf("another forge: %v", err)
	}
	cancel()
	asking.Wait()
	slow.Set(registrytest.Git, registrytest.Knobs{})
	until(func() bool {
		_, err := r.Versions(t.Context(), moduleOf("slow/vpc/aws"))
		return err == nil
	})
	if h := r.Health()[hostOf(slow)]; h.Why != "" {
		t.Errorf("its health after the outage: %+v", h)
	}
}

// Questions to a forge that does not answer take no slot of another forge, and do not count against it.
func TestForgeHangs(t *testing.T) {
	r, slow, other := forgePair(t)
	slow.Set(registrytest.Git, registrytest.Knobs{Hold: true})
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if _, err := r.Versions(t.Context(), moduleOf("slow/vpc/aws")); err != nil && !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("a forge that answers late: %v", err)
			}
		})
	}
	until(func() bool { return r.Health()[hostOf(slow)].Why == "it did not answer in time" })
	if _, err := r.Versions(t.Context(), moduleOf("other/vpc/aws")); err != nil {
		t.Errorf("another forge: %v", err)
	}
	if h := r.Health()[hostOf(other)]; h.Why != "" {
		t.Errorf("the health of another: %+v", h)
	}
	slow.Set(registrytest.Git, registrytest.Knobs{})
	asking.Wait()
	until(func() bool {
		_, err := r.Versions(t.Context(), moduleOf("slow/vpc/aws"))
		return err == nil
	})
}

// sshNetwork reaches git.test at an address that changes.
type sshNetwork struct {
	*egress.Client
	addr atomic.Pointer[netip.AddrPort]
}

func (n *sshNetwork) Resolve(context.Context, string, int) (netip.AddrPort, error) {
	return *n.addr.Load(), nil
}

// Over ssh, the versions of a module are its tags. A server that is gone is unavailable; one without the repository, or that denies
// access, is not.
func TestForgeOverSSH(t *testing.T) {
	s := rig.ServeSSH(t)
	dir := filepath.Join(t.TempDir(), "vpc.git")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# vpc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", dir}, {"-C", dir, "add", "."}, {"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"},
		{"-C", dir, "tag", "v1.0.0"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v %s", args, err, out)
		}
	}
	known := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(known, []byte("git.test "+s.HostKey+"\nstrange.test "+s.HostKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &sshNetwork{}
	n.addr.Store(&s.Addr)
	scratch := t.TempDir()
	r := parsed(t, &fetch.Table{
		Scratch: scratch, Limits: pack.Limits{Bytes: 1 << 20},
		Getters: map[string]fetch.Getter{"git": &git.Getter{Dir: scratch, Network: n, Credentials: fetch.Credentials{
			{Host: "git.test", SSHKeyFile: s.ClientKey, KnownHostsFile: known},
			{Host: "strange.test", SSHKeyFile: s.Strange, KnownHostsFile: known},
		}}},
	}, line{"corp/vpc/aws", "git::ssh://" + s.User + "@git.test" + dir, "", ""},
		line{"corp/none/aws", "git::ssh://" + s.User + "@git.test" + dir + "-none", "", ""},
		line{"strange/vpc/aws", "git::ssh://" + s.User + "@strange.test" + dir, "", ""})
	v, err := r.Versions(t.Context(), moduleOf("corp/vpc/aws"))
	if err != nil || len(v.List) != 1 || v.List[0].Spelling != "1.0.0" {
		t.Fatalf("versions %+v, error %v\n%s", v, err, s.Logged())
	}
	p, err := r.Package(t.Context(), moduleOf("corp/vpc/aws").At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for _, address := range []string{"corp/none/aws", "strange/vpc/aws"} {
		if _, err := r.Versions(t.Context(), moduleOf(address)); err == nil {
			t.Errorf("%s: no error", address)
		}
	}
	for at, h := range r.Health() {
		if h.Why != "" || h.Answered.IsZero() {
			t.Errorf("%s: health %+v", at, h)
		}
	}

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	gone := closed.Addr().(*net.TCPAddr).AddrPort()
	n.addr.Store(&gone)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			if _, err := r.Versions(ctx, moduleOf("corp/vpc/aws")); !errors.Is(err, modproxy.ErrUnavailable) {
				t.Errorf("a server that is gone: error %v", err)
			}
		}
	})
	until(func() bool { return !r.Health()["git.test"].Down.IsZero() })
	cancel()
	asking.Wait()
	if h := r.Health()["git.test"]; !strings.Contains(h.Why, "Connection refused") || strings.Contains(h.Why, dir) {
		t.Errorf("its health: %+v", h)
	}
}

// The versions of a module whose repository has a mirror come from the mirror, with the limits of its host. A forge with a mirror is not
// asked.
func TestMirroredForge(t *testing.T) {
	m, err := fetch.ParseMirror("forge.test/acme/*", "ssh://git@mirror.test:2222/m/*")
	if err != nil {
		t.Fatal(err)
	}
	f := &forges{fails: func(_ context.Context, url string) error {
		if url != "ssh://git@mirror.test:2222/m/vpc.git" {
			t.Errorf("%s was asked", url)
		}
		return nil
	}}
	r := parsed(t, &fetch.Table{Getters: map[string]fetch.Getter{"git": f}, Mirrors: fetch.Mirrors{m}},
		line{"acme/{name}/aws", "git::https://forge.test/acme/{name}.git", "", ""}, line{"other/{name}/aws", "git::https://forge.test/other/{name}.git", "", ""})
	vpc := modproxy.Address{Host: host, Namespace: "acme", Name: "vpc", System: "aws"}
	if v, err := r.Versions(t.Context(), vpc); err != nil || len(v.List) != 1 {
		t.Errorf("versions %v, error %v", v, err)
	}
	if l, err := r.Location(t.Context(), vpc.At("1.0.0")); err != nil || !strings.HasPrefix(l.URL, "https://forge.test/acme/vpc.git?ref=") {
		t.Errorf("location %v, error %v", l, err)
	}
	other := vpc
	other.Namespace = "other"
	if a, b := r.Origin(vpc), r.Origin(other); a != "ssh://mirror.test:2222" || b != "https://forge.test" {
		t.Errorf("origins %s, %s", a, b)
	}
	if h := r.Health(); len(h) != 2 || h["mirror.test:2222"].Answered.IsZero() {
		t.Errorf("health %+v", h)
	}
}
