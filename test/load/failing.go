package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How long clients wait for an answer, and for a package. Real clients wait for a package without a limit.
const (
	answerTime  = 10 * time.Second
	packageTime = 5 * time.Minute
)

// failing has clients install modules by archive and by git, and providers, from sources that fail three requests of ten.
// Clients retry as Terraform does: each request but that of a package once.
func (w *world) failing(ctx context.Context, r *row) error {
	length, before := w.lasting(3*time.Minute), w.lasting(time.Minute)
	return w.running(ctx, 1000, "", r, func(p *proxy, seen *watch) error {
		dir, err := os.MkdirTemp(w.dir, "git-")
		if err != nil {
			return err
		}
		f := &failures{world: w, p: p, size: w.many(64<<10, 4<<10)}
		if err := p.up.serveGit(ctx, dir, w.many(3000, 100), 8<<10); err != nil {
			return err
		}
		for range w.many(60, 6) {
			item := f.item()
			if err := item.install(ctx, p); err != nil {
				return fmt.Errorf("%s, without faults: %w", item.name, err)
			}
			f.cached = append(f.cached, item)
		}
		p.up.roundTo.Store(int64(80 * time.Millisecond)) // the distance in test/bench
		seen.reset()
		well := f.run(ctx, before)
		p.up.trouble.Store(&trouble{share: 0.1})
		ill := f.run(ctx, length)
		p.up.trouble.Store(&trouble{})
		r.least("cached, installed", percent(ill.good[0].Load(), ill.all[0].Load()), " %", 100)
		r.least("others, installed", percent(ill.good[1].Load(), ill.all[1].Load()), " %", 99)
		r.add("others, p50", ill.took[1].quantile(.5).Seconds(), " s")
		r.add("p99", ill.took[1].quantile(.99).Seconds(), " s")
		r.most("p50, to that without faults", ill.took[1].quantile(.5).Seconds()/well.took[1].quantile(.5).Seconds(), "", 5)
		r.note("%d cached and %d other installations; without faults %d and %d, p50 of the others %v", ill.all[0].Load(), ill.all[1].Load(),
			well.all[0].Load(), well.all[1].Load(), well.took[1].quantile(.5).Round(time.Millisecond))
		for _, group := range groups {
			r.note("%s, not cached: %d of %d", group, ill.of[group].good.Load(), ill.of[group].all.Load())
		}
		for _, problem := range append(well.problems.list(), ill.problems.list()...) {
			r.note("%s", strings.Join(strings.Fields(problem), " "))
		}
		if n := well.all[1].Load(); !w.quick && (n == 0 || well.good[1].Load() != n) {
			r.wrong(fmt.Sprintf("without faults %d of %d were installed", well.good[1].Load(), n))
		}
		r.wrong(append(well.wrong.list(), ill.wrong.list()...)...)
		return ctx.Err()
	})
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// groups are the kinds of items, in the order in which clients install them.
var groups = []string{"archive", fromGit, fromProvider}

// failures is the load of the level failing.
type failures struct {
	*world
	p      *proxy
	size   int
	next   atomic.Int64
	cached []*item
}

// tally counts installations, each first of cached items, then of the others.
type tally struct {
	all, good [2]atomic.Int64
	took      [2]histogram // of successful installations
	of        map[string]*struct{ all, good atomic.Int64 }
	problems  problems // why installations failed
	wrong     problems // other bytes than before
}

// item returns a module or a provider that no client has requested.
func (f *failures) item() *item {
	n := int(f.next.Add(1)) - 1
	group := groups[n%len(groups)]
	it := &item{group: group, name: moduleName(group, n/len(groups), f.size, 1), token: f.p.tokens[n%readers]}
	if group == fromProvider {
		it.name = fmt.Sprintf("acme/%s%d-%d-1", group, n/len(groups), f.size)
	}
	return it
}

// run has clients install for a while. Nine of ten installations are of cached items.
func (f *failures) run(ctx context.Context, length time.Duration) *tally {
	t := &tally{of: map[string]*struct{ all, good atomic.Int64 }{}}
	for _, group := range groups {
		t.of[group] = new(struct{ all, good atomic.Int64 })
	}
	clients, think := f.many(200, 10), time.Duration(f.many(6000, 500))*time.Millisecond // between two installations
	var group sync.WaitGroup
	end := time.Now().Add(length)
	for i := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			wait := time.Duration(random.Float64() * float64(think))
			for pause(ctx, wait) && time.Now().Before(end) {
				it, which := f.cached[random.IntN(len(f.cached))], 0
				if random.IntN(10) == 0 {
					it, which = f.item(), 1
				}
				t.count(ctx, f.p, it, which)
				wait = think
			}
		})
	}
	group.Wait()
	return t
}

func (t *tally) count(ctx context.Context, p *proxy, it *item, which int) {
	began := time.Now()
	err := it.install(ctx, p)
	if ctx.Err() != nil {
		return
	}
	t.all[which].Add(1)
	if which == 1 {
		t.of[it.group].all.Add(1)
	}
	switch {
	case err == nil:
		t.good[which].Add(1)
		t.took[which].add(time.Since(began))
		if which == 1 {
			t.of[it.group].good.Add(1)
		}
	case errors.Is(err, errOther):
		t.wrong.add("%s: %v", it.name, err)
	default:
		t.problems.add("%s, after %v: %v", it.name, time.Since(began).Round(time.Millisecond), err)
	}
}

// errOther is the error of a package with other bytes than before.
var errOther = errors.New("other bytes")

// An item is a module or a provider that clients install.
type item struct {
	group, name string
	token       string

	mu     sync.Mutex
	digest string // of the package that a client has received
}

// install installs it as an empty client does, on a connection of its own.
func (it *item) install(ctx context.Context, p *proxy) error {
	c := &conn{address: p.address}
	defer c.close()
	if it.group == fromProvider {
		return it.installProvider(ctx, c)
	}
	base := "/" + registryHost + "/v1/modules/" + it.name
	if _, err := askTwice(ctx, c, base+"/versions", it.token); err != nil {
		return err
	}
	r, err := askTwice(ctx, c, base+"/1.0.0/download", it.token)
	if err != nil {
		return err
	}
	location, err := url.Parse(r.header.Get("X-Terraform-Get"))
	if err != nil {
		return err
	}
	return it.fetch(ctx, c, location.RequestURI())
}

func (it *item) installProvider(ctx context.Context, c *conn) error {
	base := "/" + registryHost + providersPath + it.name
	if _, err := askTwice(ctx, c, base+"/versions", it.token); err != nil {
		return err
	}
	r, err := askTwice(ctx, c, base+"/1.0.0/download/linux/amd64", it.token)
	if err != nil {
		return err
	}
	var document struct {
		Download  string `json:"download_url"`
		Sums      string `json:"shasums_url"`
		Signature string `json:"shasums_signature_url"`
	}
	if r.body, err = plain(r); err == nil {
		err = json.Unmarshal(r.body, &document)
	}
	if err != nil {
		return err
	}
	at := &url.URL{Path: base + "/1.0.0/download/linux/amd64"}
	var paths [3]string
	for i, reference := range []string{document.Sums, document.Signature, document.Download} {
		u, err := at.Parse(reference)
		if err != nil {
			return err
		}
		paths[i] = u.RequestURI()
	}
	for _, path := range paths[:2] {
		if _, err := askTwice(ctx, c, path, ""); err != nil {
			return err
		}
	}
	return it.fetch(ctx, c, paths[2])
}

// fetch downloads the package, which clients request once. It must have the same bytes every time.
func (it *item) fetch(ctx context.Context, c *conn, path string) error {
	c.timeout = packageTime
	r := c.ask(ctx, path, "", true)
	if r.err != nil || r.status != http.StatusOK {
		return &refused{path, r}
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(r.body))
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.digest != "" && it.digest != digest {
		return fmt.Errorf("%w: %s, and %s before", errOther, digest, it.digest)
	}
	it.digest = digest
	return nil
}

// askTwice sends a request as clients send one to a registry: after a temporary failure once more, when the answer says so.
func askTwice(ctx context.Context, c *conn, path, token string) (reply, error) {
	c.timeout = answerTime
	r := c.ask(ctx, path, token, true)
	if isTemporary := r.err != nil || r.status == http.StatusTooManyRequests || r.status >= 500 && r.status != http.StatusNotImplemented; isTemporary {
		wait := time.Second
		if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil && seconds > 0 {
			wait = time.Duration(seconds) * time.Second
		}
		if !pause(ctx, wait) {
			return r, ctx.Err()
		}
		r = c.ask(ctx, path, token, true)
	}
	if r.err != nil || r.status >= 300 {
		return r, &refused{path, r}
	}
	return r, nil
}
