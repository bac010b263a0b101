package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
)

// registryHost is the hostname of the registry in source addresses.
const registryHost = "registry.acme.example"

// The line to upstream.
const (
	roundTrip     = 80 * time.Millisecond
	newConnection = 2 * roundTrip // one for TCP, and one for TLS
	bandwidth     = 20e6          // bytes a second, each way
)

// upstream is a registry and a git server at the other end of a line.
type upstream struct {
	registry *registrytest.Upstream
	repos    []*repository
	nested   []*repository // of the mirror part
	line     *line

	registryURL, gitURL string // for clients of the line
	git                 *http.Server
	asked, archives     atomic.Int64 // requests to it, of git and for archives of versions
	relays              []*relay
}

// newUpstream makes the repositories below dir and serves them.
func newUpstream(ctx context.Context, dir string, parts []string) (_ *upstream, err error) {
	u := &upstream{repos: newRepositories()}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	if slices.Contains(parts, "mirror") {
		u.nested = nestedRepositories()
	}
	u.line = newLine(roundTrip, newConnection, bandwidth)
	var urls, targets [2]string
	for i := range urls {
		r, err := listenRelay(u.line)
		if err != nil {
			return nil, err
		}
		u.relays = append(u.relays, r)
		urls[i] = "https://" + r.Addr
	}
	u.registryURL, u.gitURL = urls[0], urls[1]
	for _, r := range slices.Concat(u.repos, u.nested) {
		if err := r.write(ctx, dir); err != nil {
			return nil, err
		}
	}
	for _, r := range u.repos {
		if slices.Contains(parts, "client") {
			if err := r.archive(ctx, dir); err != nil {
				return nil, err
			}
		}
	}
	if targets[1], err = u.serveGit(dir); err != nil {
		return nil, err
	}
	if u.registry, err = registrytest.StartArchive(u.fixture(parts), registrytest.Options{}); err != nil {
		return nil, err
	}
	targets[0] = u.registry.Host
	for i, r := range u.relays {
		r.serve(targets[i])
	}
	return u, nil
}

// serveGit serves the repositories below dir by git's own server, and the archives there.
func (u *upstream) serveGit(dir string) (addr string, err error) {
	backend, err := registrytest.GitServer(dir)
	if err != nil {
		return "", err
	}
	config, err := registrytest.CA().ServerConfig("127.0.0.1")
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	files := http.FileServer(http.Dir(dir))
	u.git = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, archiveSuffix) {
				u.archives.Add(1)
				files.ServeHTTP(w, r)
				return
			}
			u.asked.Add(1)
			backend.ServeHTTP(w, r)
		}),
		TLSConfig: config,
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go u.git.ServeTLS(listener, "", "")
	return listener.Addr().String(), nil
}

// A module is one version of a module.
type module struct{ namespace, name, version string }

func (m module) address() string { return m.namespace + "/" + m.name + "/aws" }

// path is the path of a registry's request about the module.
func (m module) path(question string) string {
	switch question {
	case "versions":
		return "/" + registryHost + "/v1/modules/" + m.address() + "/versions"
	case "download":
		return "/" + registryHost + "/v1/modules/" + m.address() + "/" + m.version + "/download"
	case "details":
		return "/" + registryHost + "/v1/modules/" + m.address() + "/" + m.version
	}
	return fmt.Sprintf("/%s~/v1/modules/%s/%s/%s-aws-%s.tar.gz", registryHost, m.address(), m.version, m.name, m.version)
}

// The modules of the hot path, of the stampede and, in many versions, of the bundle.
var (
	listed   = module{"acme", "listed", "1.0.0"}
	small    = module{"acme", "small", "1.0.0"}
	large    = module{"acme", "large", "1.0.0"}
	huge     = module{"acme", "huge", "1.0.0"}
	stampede = module{"acme", "stampede", "1.0.0"}
	bulk     = module{"acme", "bulk", ""}
)

// form is a form of package locations: the namespace of the modules with that form.
type form string

const (
	byCommit  form = "acme"     // git::…?ref=COMMIT, as public registries do
	byTag     form = "tagged"   // git::…?ref=TAG
	byArchive form = "archived" // https://….tar.gz
)

// installed are the modules that the clients install, with locations of a form: one version of each repository, then another one of each.
func (u *upstream) installed(f form) (all []module, locations []string) {
	for i := range u.repos[0].versions {
		for _, r := range u.repos {
			m := module{string(f), r.name, r.versions[i]}
			all, locations = append(all, m), append(locations, u.location(f, r, i))
		}
	}
	return all, locations
}

// location is the location of the i-th version in a repository.
func (u *upstream) location(f form, r *repository, i int) string {
	switch f {
	case byTag:
		return fmt.Sprintf("git::%s/acme/%s.git?ref=v%s", u.gitURL, r.name, r.versions[i])
	case byArchive:
		return u.gitURL + "/" + r.archiveName(i)
	case byCommit:
	}
	return fmt.Sprintf("git::%s/acme/%s.git?ref=%s", u.gitURL, r.name, r.ids[i])
}

// fixture is the data of the registry for parts of a run.
func (u *upstream) fixture(parts []string) *txtar.Archive {
	ar := &txtar.Archive{}
	add := func(name string, data string) {
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(data)})
	}
	for _, f := range []form{byCommit, byTag, byArchive} {
		all, locations := u.installed(f)
		for i, m := range all {
			add("modules/"+m.address()+"/"+m.version, locations[i])
		}
	}
	for _, r := range u.nested {
		m := nestedModule(r.name)
		add("modules/"+m.address()+"/"+m.version, u.location(byCommit, r, 0))
	}
	hot := []module{listed, small, large, stampede}
	if slices.Contains(parts, "hot") {
		hot = append(hot, huge)
	}
	for _, m := range hot {
		add("modules/"+m.address()+"/"+m.version, u.registryURL+"/archives/"+m.name+".tar.gz")
		add("archives/"+m.name+".tar.gz/main.tf", "locals {}\n")
	}
	add("modules/"+listed.address()+"/versions", versionsDocument(20<<10))
	random := rand.New(rand.NewPCG(1, 2))
	add("archives/listed.tar.gz/README.md", strings.Repeat(content("README.md", text(random, 8)), 22)) // about as long as the description
	if slices.Contains(parts, "hot") {
		add("archives/huge.tar.gz/data.bin", noise(random, 50<<20))
	}
	add("archives/small.tar.gz/data.bin", noise(random, 180<<10))
	add("archives/large.tar.gz/data.bin", noise(random, 5<<20))
	for i := 0; slices.Contains(parts, "bundle") && i < bulkPackages; i++ {
		add(fmt.Sprintf("modules/%s/1.%d.0", bulk.address(), i), fmt.Sprintf("%s/archives/bulk%d.tar.gz", u.registryURL, i))
		add(fmt.Sprintf("archives/bulk%d.tar.gz/main.tf", i), "locals {}\n")
		add(fmt.Sprintf("archives/bulk%d.tar.gz/README.md", i), content("README.md", text(random, bulkLines)))
	}
	if slices.Contains(parts, "providers") {
		for _, p := range toys() {
			add(p.fixture(toySize))
		}
		add(largeProvider.fixture(largeSize))
	}
	return ar
}

// noise is data that does not compress, and that contains no placeholder of a fixture.
func noise(random *rand.Rand, size int) string {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return strings.ReplaceAll(string(data), "{", "(")
}

// versionsDocument is a document of about size bytes, as of a registry with many versions and all their variables.
func versionsDocument(size int) string {
	var entries []string
	for n, i := 0, 0; n < size; i++ {
		entries = append(entries, fmt.Sprintf(
			`{"version":"%d.%d.%d","root":{"providers":[{"name":"aws","namespace":"hashicorp","source":"hashicorp/aws","version":">= 5.%d"}],"dependencies":[]},"submodules":[]}`,
			1+i/20, i%20, i%3, i))
		n += len(entries[i]) + 1
	}
	return `{"modules":[{"source":"acme/listed/aws","versions":[` + strings.Join(entries, ",") + `]}]}`
}

// count is the number of requests since the last reset, by kind.
func (u *upstream) count() map[string]int {
	counts := map[string]int{}
	for _, r := range u.registry.Requests() {
		counts[string(r.Kind)]++
	}
	if n := int(u.asked.Load()); n > 0 {
		counts["git"] += n
	}
	if n := int(u.archives.Load()); n > 0 {
		counts["archive"] += n
	}
	return counts
}

// connections is the number of connections since the last reset.
func (u *upstream) connections() (n int) {
	for _, r := range u.relays {
		n += int(r.accepted.Load())
	}
	return n
}

func (u *upstream) reset() {
	for _, r := range u.relays {
		r.accepted.Store(0)
	}
	u.line.down.total()
	u.registry.Reset()
	u.asked.Store(0)
	u.archives.Store(0)
}

func (u *upstream) close() error {
	var errs []error
	for _, r := range u.relays {
		errs = append(errs, r.close())
	}
	if u.git != nil {
		errs = append(errs, u.git.Close())
	}
	if u.registry != nil {
		errs = append(errs, u.registry.Close())
	}
	return errors.Join(errs...)
}
