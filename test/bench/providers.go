package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// The providers that clients install, and the large one, with the sizes of their packages in MiB.
const (
	toyProviders = 5
	toySize      = 4
	largeSize    = 200
	largeClients = 8
)

// wayDirect is the way directly from a registry of providers with their packages.
const wayDirect = "registry"

// provider is version 1.0.0 of one of them.
type provider string

const largeProvider provider = "acme/large"

func toys() (all []provider) {
	for i := range toyProviders {
		all = append(all, provider(fmt.Sprintf("acme/toy%d", i+1)))
	}
	return all
}

// registryOfProviders is the path of requests to registries of providers on the servers here.
const registryOfProviders = "/" + registryHost + "/v1/providers/"

func (p provider) path(question string) string {
	return registryOfProviders + string(p) + "/" + question
}

const download = "1.0.0/download/" + runtime.GOOS + "/" + runtime.GOARCH

// fixture is the data of a provider in a registry, with packages of size MiB.
func (p provider) fixture(size int) (name, data string) {
	return "providers/" + string(p) + "/1.0.0", fmt.Sprintf("size=%d\nplatforms=%s_%s\n", size, runtime.GOOS, runtime.GOARCH)
}

// providersReport has the costs of installing providers, and of sending a large package to many clients.
type providersReport struct {
	Clients []providerClientReport `json:"clients"`
	Bytes   int64                  `json:"large_bytes"`
	Large   []largeReport          `json:"large"`
}

type providerClientReport struct {
	Client       string      `json:"client"`
	Ways         []wayReport `json:"ways"`
	ColdToDirect float64     `json:"cold_to_registry"`
	WarmToNginx  float64     `json:"warm_to_nginx"`
}

// largeReport is one way in which a large package reaches many clients at once.
type largeReport struct {
	Way    string    `json:"way"`
	Rates  []float64 `json:"bytes_per_second"` // to all clients
	Median float64   `json:"median"`
	CPU    float64   `json:"cpu"` // seconds of the server, for all clients
	Peak   int64     `json:"peak_memory"`
}

// measureProviders installs providers in every way, in turns, and has a large one sent to many clients.
func (b *bench) measureProviders(ctx context.Context, r *report) error {
	if err := b.startProxy(ctx); err != nil {
		return err
	}
	b.say("filling nginx with %d providers", toyProviders)
	var answers []copied
	for _, p := range append(toys(), largeProvider) {
		some, err := b.copyProvider(ctx, p)
		if err != nil {
			return err
		}
		answers = append(answers, some...)
	}
	n, err := b.startNginx(ctx, answers)
	if err != nil {
		return err
	}
	out := &providersReport{}
	for _, c := range b.clients {
		ways := []*way{
			{name: wayDirect, registry: b.up.registryURL + "/v1/providers/"},
			{name: wayCold},
			{name: wayWarm},
			{name: wayNginx, registry: n.disk + registryOfProviders},
		}
		if err := b.measureInits(ctx, c, ways); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		cr := providerClientReport{Client: c.name}
		medians := map[string]float64{}
		for _, w := range ways {
			cr.Ways = append(cr.Ways, w.report(toyProviders))
			medians[w.name] = median(w.seconds)
		}
		cr.ColdToDirect = medians[wayCold] / medians[wayDirect]
		cr.WarmToNginx = medians[wayWarm] / medians[wayNginx]
		out.Clients = append(out.Clients, cr)
	}
	r.Providers = out
	return b.measureLarge(ctx, n, out)
}

// copyProvider requests everything about a provider except a large package from the proxy. URLs become paths.
func (b *bench) copyProvider(ctx context.Context, p provider) ([]copied, error) {
	var files struct {
		Zip       string `json:"download_url"`
		Sums      string `json:"shasums_url"`
		Signature string `json:"shasums_signature_url"`
	}
	var all []copied
	take := func(path string) error {
		a, err := ask(ctx, b.proxyURL+path, "identity")
		if err != nil {
			return err
		}
		if path == p.path(download) {
			if err := json.Unmarshal(a.body, &files); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			a.body = []byte(strings.ReplaceAll(string(a.body), b.proxyURL, ""))
		}
		all = append(all, copied{path: path, answer: a})
		return nil
	}
	if err := errors.Join(take(p.path("versions")), take(p.path(download))); err != nil {
		return nil, err
	}
	for _, url := range []string{files.Sums, files.Signature, files.Zip} {
		path, ok := strings.CutPrefix(url, b.proxyURL)
		if !ok {
			return nil, fmt.Errorf("%s: a file is at %q, not at %s", p.path(download), url, b.proxyURL)
		}
		if p == largeProvider && url == files.Zip {
			continue
		}
		if err := take(path); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// measureInits installs the small providers.
func (b *bench) measureInits(ctx context.Context, c client, ways []*way) error {
	for turn := range b.runs {
		var first string
		for _, w := range ways {
			switch w.name {
			case wayCold:
				if err := b.startProxy(ctx); err != nil {
					return err
				}
				w.registry = b.proxyURL + registryOfProviders
			case wayWarm:
				w.registry = b.proxyURL + registryOfProviders
			}
			b.up.reset()
			took, content, err := b.init(ctx, c, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.seconds, w.upstream = append(w.seconds, took.Seconds()), b.up.count()
			b.say("%s init, %s, %d of %d: %.2f s", c.name, w.name, turn+1, b.runs, took.Seconds())
			if first == "" {
				first = content
			}
			if content != first {
				return fmt.Errorf("%s installs other files than %s, or locks others", w.name, ways[0].name)
			}
			if n := w.upstream; (w.name == wayWarm || w.name == wayNginx) && len(n) > 0 {
				return fmt.Errorf("%s: upstream was asked: %v", w.name, n)
			}
		}
	}
	return nil
}

// init installs the small providers into an empty directory. It returns the duration, and the digest of the files with the lock file.
func (b *bench) init(ctx context.Context, c client, w *way) (time.Duration, string, error) {
	dir, err := os.MkdirTemp(b.scratch, "client-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	i := &rig.Installation{
		Dir: dir, Providers: map[string]string{}, Registries: map[string]string{registryHost: w.registry},
		CAFile: b.up.registry.CAFile,
	}
	for _, p := range toys() {
		i.Providers[filepath.Base(string(p))] = fmt.Sprintf(`source = "%s/%s", version = "1.0.0"`, registryHost, p)
	}
	begin := time.Now()
	installed, err := i.Init(ctx, c.path)
	if err != nil {
		return 0, "", err
	}
	took := time.Since(begin)
	content, err := digest(installed)
	if err != nil {
		return 0, "", err
	}
	locked, err := os.ReadFile(filepath.Join(installed, "..", "..", ".terraform.lock.hcl"))
	return took, content + string(locked), err
}

// measureLarge lets many clients request a large package at once: from a proxy that does not have it yet, once, and then in turns from
// the proxy and from nginx.
func (b *bench) measureLarge(ctx context.Context, n *nginx, out *providersReport) error {
	if err := b.startProxy(ctx); err != nil {
		return err
	}
	a, err := ask(ctx, b.proxyURL+largeProvider.path(download), "identity")
	if err != nil {
		return err
	}
	var said struct {
		Zip string `json:"download_url"`
	}
	if err := json.Unmarshal(a.body, &said); err != nil {
		return err
	}
	path := strings.TrimPrefix(said.Zip, b.proxyURL)
	b.up.reset()
	comes := &sending{name: "modproxy, while it comes", url: said.Zip, pids: func() []int { return family(b.proxy.ID()) }}
	if err := b.send(ctx, comes); err != nil {
		return err
	}
	if fetched := b.up.count()["zip"]; fetched > 1 {
		return fmt.Errorf("%d clients at once: upstream was asked for one package %d times", largeClients, fetched)
	}
	file := filepath.Join(n.files, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if out.Bytes, err = saveURL(ctx, file, said.Zip); err != nil {
		return err
	}
	b.up.reset()
	kept := &sending{name: serverProxy, url: said.Zip, pids: comes.pids}
	disk := &sending{name: serverDisk, url: n.disk + path, pids: func() []int { return family(n.ID()) }}
	for range b.rounds {
		for _, l := range []*sending{kept, disk} {
			if err := b.send(ctx, l); err != nil {
				return err
			}
		}
	}
	if n := b.up.count(); len(n) > 0 {
		return fmt.Errorf("upstream was asked by a warm proxy: %v", n)
	}
	for _, l := range []*sending{comes, kept, disk} {
		if slices.ContainsFunc(l.bytes, func(n int64) bool { return n != out.Bytes }) {
			return fmt.Errorf("%s has sent %v bytes; want %d", l.name, l.bytes, out.Bytes)
		}
		report := largeReport{Way: l.name, CPU: median(l.cpu), Peak: l.peak}
		for _, took := range l.seconds {
			report.Rates = append(report.Rates, largeClients*float64(out.Bytes)/took)
		}
		report.Median = median(report.Rates)
		out.Large = append(out.Large, report)
	}
	return nil
}

// sending is a server of a large package, with its measurements by turn.
type sending struct {
	name, url    string
	pids         func() []int
	seconds, cpu []float64
	bytes        []int64 // received by each client
	peak         int64
}

// send lets a server send its package to all clients.
func (b *bench) send(ctx context.Context, l *sending) error {
	for _, pid := range l.pids() {
		rig.ResetPeak(pid)
	}
	before, begin := cpu(l.pids()...), time.Now()
	got, errs := make([]int64, largeClients), make([]error, largeClients)
	var all sync.WaitGroup
	for i := range largeClients {
		all.Go(func() { got[i], errs[i] = saveURL(ctx, os.DevNull, l.url) })
	}
	all.Wait()
	took := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.seconds = append(l.seconds, took.Seconds())
	l.cpu = append(l.cpu, (cpu(l.pids()...) - before).Seconds())
	l.bytes = append(l.bytes, got...)
	var memory int64
	for _, pid := range l.pids() {
		memory += peak(pid)
	}
	l.peak = max(l.peak, memory)
	b.say("%s to %d clients: %.2f s", l.name, largeClients, took.Seconds())
	return nil
}

// saveURL writes the answer of a server to a file, and returns its size.
func saveURL(ctx context.Context, file, url string) (n int64, err error) {
	r, err := rig.NewRequest(ctx, http.MethodGet, url)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, response.Status)
	}
	to, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	// A plain writer, because the methods of files differ.
	return io.Copy(struct{ io.Writer }{to}, response.Body)
}

func (r *providersReport) writeText(w io.Writer) {
	for _, c := range r.Clients {
		fmt.Fprintf(w, "\n%s init of %d providers of %d MiB: %s\n\n", c.Client, toyProviders, toySize, lineText(newConnection.Seconds()))
		writeWays(w, c.Ways)
		fmt.Fprintf(w, "\n%s to %s: %.2f\n%s to %s: %.2f (target: at most 1.2)%s\n",
			wayCold, wayDirect, c.ColdToDirect, wayWarm, wayNginx, c.WarmToNginx, missed(c.WarmToNginx > 1.2))
	}
	fmt.Fprintf(w, "\nA package of %.0f MB to %d clients at once\n\nserver\tMB/s\tmin\tmax\tcpu\tpeak memory\n", float64(r.Bytes)/1e6, largeClients)
	for _, l := range r.Large {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f s\t%.1f MB\n", l.Way,
			l.Median/1e6, slices.Min(l.Rates)/1e6, slices.Max(l.Rates)/1e6, l.CPU, float64(l.Peak)/1e6)
	}
}
