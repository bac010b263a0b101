package fetch_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
)

// busy is a getter whose servers answer 429 to queries with wait=SECONDS. It counts the requests.
type busy struct {
	has
	asked map[string]int // by host
}

func (b busy) Fetch(ctx context.Context, s fetch.Source, tree *pack.Builder) (fetch.Result, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return fetch.Result{}, err
	}
	b.asked[u.Host]++
	if wait := u.Query().Get("wait"); wait != "" {
		host := strings.TrimPrefix(u.Path, "/") // the host that answers, after a redirect
		return fetch.Result{}, fetch.Later(&fetch.Answered{Where: host, Host: host, Status: "429 Too Many Requests", Code: 429}, wait)
	}
	return b.has.Fetch(ctx, s, tree)
}

// All fetches observe a server's Retry-After, in the background for twice as long. It applies to the server that
// answered, not to one that redirected to it.
func TestServersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := busy{"main.tf", map[string]int{}}
		tb := table(t, map[string]fetch.Getter{"git": b})
		get := func(ctx context.Context, what string) error {
			p, err := tb.Package(ctx, at("git", "https://"+what, ""))
			if err == nil {
				p.Close()
			}
			return err
		}
		client, run := t.Context(), modproxy.InBackground(t.Context())
		began := time.Now()
		want := func(ctx context.Context, what string, after time.Duration) {
			t.Helper()
			err := get(ctx, what)
			var later *modproxy.RetryLater
			if after == 0 && err != nil || after > 0 && (!errors.As(err, &later) || later.After.Sub(began) != after) {
				t.Errorf("%s: %v; want it after %v", what, err, after)
			}
		}
		want(client, "forge.test/forge.test?wait=60", time.Minute)
		want(client, "forge.test/other", time.Minute)
		want(run, "forge.test/other", 2*time.Minute)
		want(client, "another.test/forge.test", 0)
		want(client, "FORGE.test:443/other", time.Minute)
		if _, err := tb.Commit(client, at("git", "https://forge.test/other", "")); err == nil {
			t.Error("its commits are asked for")
		}
		if n := b.asked["forge.test"]; n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		time.Sleep(55 * time.Second)
		want(client, "forge.test/other", 0) // within the time that a client waits
		if time.Since(began) != time.Minute {
			t.Errorf("it was asked after %v", time.Since(began))
		}
		want(run, "forge.test/other", 2*time.Minute)
		time.Sleep(time.Minute)
		want(run, "forge.test/other", 0)

		began = time.Now()
		want(client, "forge.test/store.test?wait=100000", time.Hour)
		want(client, "forge.test/other", 0)
		want(client, "store.test/other", time.Hour)
	})
}

// A background fetch that a client begins to wait for waits no longer than the client's own.
func TestLeftAloneForClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := table(t, map[string]fetch.Getter{"git": busy{"main.tf", map[string]int{}}})
		began := time.Now()
		if _, err := tb.Package(t.Context(), at("git", "https://forge.test/forge.test?wait=4", "")); err == nil {
			t.Fatal("it was answered")
		}
		run := modproxy.InBackground(t.Context())
		time.AfterFunc(time.Second, func() { modproxy.BringForward(run) })
		p, err := tb.Package(run, at("git", "https://forge.test/other", ""))
		if err != nil || time.Since(began) != 4*time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		p.Close()
	})
}

// While a fetch waits for Retry-After, or pauses before a retry, its meter reports that bytes are awaited.
func TestPausesReportThatTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := table(t, map[string]fetch.Getter{"git": busy{"main.tf", map[string]int{}}})
		get := func(ctx context.Context, what string) error {
			p, err := tb.Package(ctx, at("git", "https://"+what, ""))
			if err == nil {
				err = p.Close()
			}
			return err
		}
		if get(t.Context(), "forge.test/forge.test?wait=8") == nil {
			t.Fatal("it was answered")
		}
		for name, wait := range map[string]func(context.Context) error{
			"alone": func(ctx context.Context) error { return get(ctx, "forge.test/other") },
			"pause": func(ctx context.Context) error {
				err := fetch.Later(modproxy.ErrUnavailable, "7")
				return fetch.Retry(ctx, func() (bool, error) {
					defer func() { err = nil }()
					return true, err
				})
			},
		} {
			meter := &modproxy.Meter{}
			ended := make(chan error)
			go func() { ended <- wait(modproxy.WithMeter(t.Context(), meter)) }()
			synctest.Wait()
			if _, receiving := meter.Received(); !receiving {
				t.Errorf("%s: nothing is waited for", name)
			}
			<-ended
		}
	})
}

// Tags does not wait for the end of a pause, and a getter without tags is an error.
func TestTagsDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tagged{busy{"main.tf", map[string]int{}}}
		tb := table(t, map[string]fetch.Getter{"git": b, "https": has("main.tf")})
		ask := func(what string) error {
			_, err := tb.Tags(t.Context(), at("git", "https://"+what, ""), "v")
			return err
		}
		began := time.Now()
		for _, what := range []string{"forge.test/forge.test?wait=5", "forge.test/other"} {
			err := ask(what)
			if _, errNamed := tb.NamedTags(t.Context(), at("git", "https://"+what, ""), "v1"); !errors.As(errNamed, new(*modproxy.RetryLater)) {
				t.Errorf("%s: named tags: error %v", what, errNamed)
			}
			var later *modproxy.RetryLater
			if !errors.As(err, &later) || later.After.Sub(began) != 5*time.Second || time.Since(began) > 0 {
				t.Errorf("%s: error %v after %v", what, err, time.Since(began))
			}
		}
		if b.asked["forge.test"] != 1 {
			t.Errorf("%d requests during the pause", b.asked["forge.test"]-1)
		}
		time.Sleep(5 * time.Second)
		if err := ask("forge.test/other"); err != nil {
			t.Errorf("after the pause: %v", err)
		}
		if _, err := tb.Tags(t.Context(), at("https", "https://forge.test/a.zip", "")); !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("an archive: error %v", err)
		}
	})
}

// tagged is a busy getter of repositories.
type tagged struct{ busy }

func (b tagged) Tags(ctx context.Context, s fetch.Source, _ ...string) ([]fetch.Tag, error) {
	tree, err := pack.New("", pack.Limits{})
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	s.Budget = egress.NewBudget(1)
	_, err = b.Fetch(ctx, s, tree)
	return nil, err
}

func (b tagged) NamedTags(ctx context.Context, s fetch.Source, names ...string) ([]fetch.Tag, error) {
	return b.Tags(ctx, s, names...)
}
