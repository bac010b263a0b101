package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// spellings has a proxy, a registry whose content differs between spellings and changes, and the content that the proxy has
// served.
type spellings struct {
	*rand.Rand
	t        *testing.T
	registry *registrytest.Upstream
	a        *App
	served   map[modproxy.Ref]string // by lower-case address
	accepted map[modproxy.Ref]bool   // versions with content that was accepted since the last answer
	blocked  map[modproxy.Address]bool
	config   *config.Config
	end      func() // ends the proxy
	listed   bool   // the proxy has listed the module aged; the registry lists its version 1.1.0 only afterwards
	oks      int
	refusals int
}

var namespaces, names = []string{"team", "Team", "TEAM", "teaM"}, []string{"net", "Net", "neT"}

func (s *spellings) namespace() string { return namespaces[s.IntN(len(namespaces))] }

// net returns a spelling of the address of the module net.
func (s *spellings) net() modproxy.Address {
	return modproxy.Address{Host: s.registry.Host, Namespace: s.namespace(), Name: names[s.IntN(len(names))], System: "aws"}
}

// change gives the registry random content for each spelling.
func (s *spellings) change() {
	var b strings.Builder
	content := func() string { return fmt.Sprintf("# content %d\n", s.IntN(3)) }
	for _, namespace := range namespaces {
		for _, name := range names {
			fmt.Fprintf(&b, "-- modules/%s/%s/aws/1.0.0/main.tf --\n%s", namespace, name, content())
		}
		fmt.Fprintf(&b, "-- modules/%s/aged/aws/1.0.0/main.tf --\n%s", namespace, content())
		if s.listed && s.IntN(3) > 0 {
			fmt.Fprintf(&b, "-- modules/%s/aged/aws/1.1.0/main.tf --\n%s", namespace, content())
		}
		fmt.Fprintf(&b, "-- modules/%s/sub/aws/1.0.0 --\ngit::%s/sub.git//dir%d?ref=v1\n", namespace, s.registry.URL, s.IntN(2))
	}
	fmt.Fprintf(&b, "-- repos/sub.git@v1/dir0/main.tf --\n# content 0\n-- repos/sub.git@v1/dir1/main.tf --\n# content 1\n")
	fmt.Fprintf(&b, "-- providers/team/toy/1.0.0/file --\n%s-- providers/team/toy/1.0.0/knobs --\nplatforms=linux_amd64\n", content())
	must(s.t, s.registry.LoadArchive(txtar.Parse([]byte(b.String()))))
	s.a.Cache.Forget(modproxy.Ref{}) // so that failed downloads are tried again
}

// ask returns an answer of the proxy, or nil if the request is refused.
func (s *spellings) ask(path string) (http.Header, []byte) {
	s.t.Helper()
	answer, err := http.Get(s.a.URL() + path)
	for end := time.Now().Add(time.Minute); err == nil && answer.StatusCode == http.StatusServiceUnavailable && time.Now().Before(end); {
		answer.Body.Close() // clients come back on a slow machine
		time.Sleep(100 * time.Millisecond)
		answer, err = http.Get(s.a.URL() + path)
	}
	must(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		s.refusals++
		return nil, nil
	}
	return answer.Header, body
}

// install installs a version as clients or the verb mirror do.
func (s *spellings) install() {
	s.t.Helper()
	m, version := s.net(), "1.0.0"
	var content string
	switch s.IntN(4) {
	case 0:
		m.Name = "sub"
	case 1:
		m.Name = "aged"
		version = []string{"1.0.0", "1.1.0"}[s.IntN(2)]
	case 2:
		m = modproxy.NewProvider(s.registry.Host, m.Namespace, "toy")
		if s.IntN(2) == 0 {
			content = s.zip(m)
		} else {
			content = s.zipOfMirror(m)
		}
	}
	switch {
	case m.IsProvider():
	case s.IntN(4) == 0:
		content = s.mirrored(m, version)
	default:
		spelled := []string{version, "v" + version, strings.TrimSuffix(version, ".0")}[s.IntN(3)]
		h, _ := s.ask(fmt.Sprintf("/%s/v1/modules/%s/%s/aws/%s/download", s.registry.Host, m.Namespace, m.Name, spelled))
		if h == nil {
			return
		}
		location, dir, _ := strings.Cut(strings.TrimPrefix(h.Get("X-Terraform-Get"), s.a.URL()), "//")
		if _, pkg := s.ask(location); pkg != nil {
			content = main(s.t, pkg, dir)
		}
	}
	if content == "" {
		return
	}
	v := m.Folded().At(version)
	if s.blocked[v.Address] {
		s.t.Errorf("%s is blocked, and is served", m)
	}
	if s.listed && m.Name == "aged" && version == "1.1.0" { // once listed, 1.1.0 is younger than min_age
		s.t.Errorf("%s %s is too young, and is served", m, version)
	}
	if was := s.served[v]; was != "" && was != content && !s.accepted[v] {
		s.t.Errorf("%s is %q, and was served as %q in another spelling or before", m, content, was)
	}
	s.oks++
	s.served[v] = content
	delete(s.accepted, v)
}

// zip returns the digest of the package of a provider, or an empty string if it is refused.
func (s *spellings) zip(m modproxy.Address) string {
	s.t.Helper()
	var told struct {
		Shasum, Download_URL string
	}
	_, body := s.ask(fmt.Sprintf("/%s/v1/providers/%s/toy/1.0.0/download/linux/amd64", s.registry.Host, s.namespace()))
	if body == nil {
		return ""
	}
	must(s.t, json.Unmarshal(body, &told))
	_, zip := s.ask(strings.TrimPrefix(told.Download_URL, s.a.URL()))
	if zip == nil {
		return ""
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(zip))
	if digest != told.Shasum {
		s.t.Errorf("%s: the package is %s, and was announced as %s", m, digest, told.Shasum)
	}
	return digest
}

// zipOfMirror is like zip, for a client that uses the proxy as a provider mirror.
func (s *spellings) zipOfMirror(m modproxy.Address) string {
	s.t.Helper()
	var told struct {
		Archives map[string]struct {
			URL    string
			Hashes []string
		}
	}
	_, body := s.ask(fmt.Sprintf("/-/mirror/%s/%s/toy/1.0.0.json", s.registry.Host, s.namespace()))
	if body == nil {
		return ""
	}
	must(s.t, json.Unmarshal(body, &told))
	archive := told.Archives["linux_amd64"]
	_, zip := s.ask(strings.TrimPrefix(archive.URL, s.a.URL()))
	if zip == nil {
		return ""
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(zip))
	if !slices.Contains(archive.Hashes, "zh:"+digest) {
		s.t.Errorf("%s: the package is %s, and was announced as %s", m, digest, archive.Hashes)
	}
	return digest
}

// mirrored downloads a version as the verb mirror does. It returns the content, or an empty string if it is refused.
func (s *spellings) mirrored(m modproxy.Address, version string) (content string) {
	s.t.Helper()
	client, claim, err := admin.Reach(s.t.Context(), s.config.Data)
	must(s.t, err)
	if claim != nil {
		s.t.Fatal("the proxy does not serve")
	}
	in := mirror.Request{Content: true, Starts: []closure.Start{{Client: tfconfig.OpenTofu, Call: tfconfig.Call{Source: m.String(), Version: version}}}}
	var sent *mirror.Package
	var data bytes.Buffer
	_, err = admin.MirrorFetch.Call(s.t.Context(), client, in, func(l mirror.Line) error {
		if l.Package != nil {
			sent = l.Package
		}
		data.Write(l.Data)
		return nil
	})
	must(s.t, err)
	if sent == nil || data.Len() == 0 {
		s.refusals++
		return ""
	}
	return main(s.t, data.Bytes(), sent.Subdir)
}

// main returns the file main.tf in a directory of a package.
func main(t *testing.T, pkg []byte, dir string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(pkg))
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%q: %v", dir, err)
		}
		if path.Clean(h.Name) == path.Join(dir, "main.tf") {
			text, err := io.ReadAll(r)
			must(t, err)
			return string(text)
		}
	}
}

// accept accepts content that was offered and refused.
func (s *spellings) accept() {
	s.t.Helper()
	for d, err := range s.a.Ledger.Drifts(s.t.Context()) {
		must(s.t, err)
		if d.Variant.Kind == modproxy.KeysVariant || s.IntN(3) > 0 {
			continue
		}
		m := d.Address
		if !m.IsProvider() {
			m.Namespace = s.namespace()
		}
		r := ledger.Record{Ref: m.At(d.Version), Sum: d.Offered, Subdir: d.Subdir, Time: time.Now(), Reason: "why not", Source: d.Source, ProviderFacts: d.ProviderFacts}
		must(s.t, s.a.Ledger.Accept(s.t.Context(), r))
		s.accepted[m.Folded().At(d.Version)] = true
		s.a.Cache.Forget(modproxy.Ref{})
		return
	}
}

// decide blocks a module in one spelling, or unblocks it in another.
func (s *spellings) decide() {
	m := s.net()
	action := modproxy.Block
	if s.blocked[m.Folded()] {
		action = modproxy.Unblock
	}
	s.blocked[m.Folded()] = action == modproxy.Block
	d := modproxy.Decision{Address: m, Action: action, By: "operator", Time: time.Now()}
	must(s.t, s.a.Ledger.Decide(s.t.Context(), d))
	must(s.t, s.a.gate.Follow(s.t.Context()))
}

// carry imports a bundle of the packages of another proxy.
func (s *spellings) carry() {
	s.t.Helper()
	far := newSpellings(s.t, s.registry, s.Rand)
	for range 4 {
		far.install()
	}
	var selected []modproxy.Ref
	for l, err := range far.a.Cache.List(s.t.Context(), modproxy.Address{}) {
		must(s.t, err)
		selected = append(selected, l.Ref)
	}
	var file bytes.Buffer
	x := bundle.Exporter{Registry: far.a.Cache, Ledger: far.a.Ledger, FirstSeen: far.a.firstSeen}
	made, err := x.Begin(s.t.Context(), selected, nil, func(modproxy.Ref, error) {})
	if errors.Is(err, modproxy.ErrNotFound) {
		return // everything is refused at the moment
	}
	must(s.t, err)
	_, err = made.Write(s.t.Context(), &file)
	must(s.t, err)
	trust, err := ledger.Verifiers(far.a.Ledger.VerifierKey())
	must(s.t, err)
	i := bundle.Importer{Trust: trust, Ledger: s.a.Ledger, Cache: s.a.Cache, FirstSeen: s.a.firstSeen, Gate: s.a.gate, Scratch: s.t.TempDir()}
	_, _, err = i.Import(s.t.Context(), &file)
	must(s.t, err)
}

// newSpellings starts a proxy that runs until the test ends.
func newSpellings(t *testing.T, u *registrytest.Upstream, r *rand.Rand) *spellings {
	t.Helper()
	c := config.Default()
	c.Listen, c.Data = "127.0.0.1:0", t.TempDir()
	c.Upstreams = []config.Upstream{{Host: u.Host}}
	c.Egress.Allow, c.Egress.CAFile = []string{"127.0.0.0/8"}, u.CAFile
	c.Policy.FirstContact = "allow"
	aged, err := policy.ParsePattern("*/*/aged/*")
	must(t, err)
	all, err := policy.ParsePattern("*/*/net/*")
	must(t, err)
	sub, err := policy.ParsePattern("*/*/sub/*")
	must(t, err)
	toy, err := policy.ParsePattern("*/*/toy")
	must(t, err)
	c.Policy.Default = "deny"
	c.Policy.Rules = []config.PolicyRule{{Allow: aged, MinAge: 24 * time.Hour}, {Allow: all}, {Allow: sub}, {Allow: toy}}
	s := &spellings{
		Rand: r, t: t, registry: u, config: c, served: map[modproxy.Ref]string{},
		accepted: map[modproxy.Ref]bool{}, blocked: map[modproxy.Address]bool{},
	}
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

// start starts the proxy.
func (s *spellings) start() {
	s.t.Helper()
	a, err := New(s.t.Context(), s.config, Options{Log: io.Discard})
	must(s.t, err)
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, nil) }()
	s.a = a
	s.end = func() {
		end()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			s.t.Error(err)
		}
	}
	for { // until it serves
		if _, claim, err := admin.Reach(s.t.Context(), s.config.Data); err != nil || claim == nil {
			must(s.t, err)
			return
		} else {
			must(s.t, claim.Close())
		}
	}
}

// meet requests the versions of the module aged in a spelling, so that the proxy records their first-seen times.
func (s *spellings) meet() {
	s.change()
	if h, _ := s.ask(fmt.Sprintf("/%s/v1/modules/%s/aged/aws/versions", s.registry.Host, s.namespace())); h == nil {
		s.t.Fatal("the module is not listed")
	}
	s.listed = true
}

// TestSpellingsOfOneAddress: no spelling of an address is served content that another spelling is refused. The registry answers
// each spelling differently, and content is imported, accepted, blocked and removed in between.
func TestSpellingsOfOneAddress(t *testing.T) {
	rounds, steps := uint64(2), 80
	if rig.Long() {
		rounds, steps = 20, 400
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			s := newSpellings(t, registrytest.New(t, txtar.Parse(nil)), r)
			s.meet()
			for range steps {
				switch n := r.IntN(31); {
				case n < 20:
					s.install()
				case n < 24:
					s.change()
				case n < 26:
					s.accept()
				case n < 27:
					s.decide()
				case n < 28:
					s.carry()
				case n < 29:
					s.end()
					s.start()
				default:
					s.a.Cache.Discard(t.Context(), s.net().At(""))
				}
			}
			if s.oks < steps/10 || s.refusals < steps/10 {
				t.Errorf("%d answers and %d refusals prove little", s.oks, s.refusals)
			}
		})
	}
}
