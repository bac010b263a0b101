package modproxy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const self = "github.com/modproxy/modproxy"

// homes lists the packages that may import a dependency, and where it can therefore be replaced.
var homes = map[string][]string{
	"go.uber.org/zap":                               {"proxy", "app"},
	"github.com/gorilla/mux":                        {"proxy"},
	"github.com/prometheus/client_golang":           {"proxy"},
	"go.etcd.io/bbolt":                              {"store/disk"},
	"github.com/hashicorp/go-retryablehttp":         {"egress"},
	"github.com/hashicorp/golang-lru":               {"internal/memory", "store", "upstream", "proxy", "auth/oidc", "policy", "sights", "nested"},
	"github.com/coreos/go-oidc":                     {"auth/oidc"},
	"github.com/go-jose/go-jose":                    {"auth/oidc"},
	"golang.org/x/time":                             {"upstream", "proxy"},
	"golang.org/x/sync":                             {"store", "upstream", "sights", "bundle", "nested", "catalog"},
	"github.com/klauspost/compress":                 {"pack", "fetch/archive", "closure", "nested", "release"},
	"github.com/ulikunitz/xz":                       {"fetch/archive"},
	"github.com/hashicorp/hcl/v2":                   {"closure"},
	"github.com/zclconf/go-cty":                     {"closure"},
	"github.com/hashicorp/terraform-config-inspect": {"closure"},
	"github.com/apparentlymart/go-versions":         {"closure"},
	"golang.org/x/mod":                              {"pack", "ledger", "lock", "app", "bundle", "static"},
	"github.com/hashicorp/terraform-svchost":        {"hostname"},
	"github.com/goccy/go-yaml":                      {"config"},
	"github.com/spf13/cobra":                        {"cmd/modproxy"},
	"github.com/spf13/pflag":                        {"cmd/modproxy"},
	"github.com/ProtonMail/go-crypto":               {"test/registrytest", "release"},
	"golang.org/x/net":                              {"egress"},
	"golang.org/x/net/netutil":                      {"egress"},
	"golang.org/x/sys/unix":                         {"fetch/git"},
	"golang.org/x/text":                             {"pack", "policy"},
	"github.com/rogpeppe/go-internal/txtar":         {"test/registrytest"},
	"github.com/google/go-cmp":                      {},
	"github.com/hashicorp/go-version":               {},
	"github.com/rogpeppe/go-internal/testscript":    {},
}

// anywhere lists the project's packages that every package may import.
var anywhere = []string{"internal/clean", "internal/durable", "internal/filelock", "internal/memory", "internal/spool"}

// layers lists the packages that meet only in the root package and in app, and what each of them may import besides. The
// program itself prints results of app and admin.
var layers = map[string][]string{
	"auth":          {"", "internal/durable", "internal/filelock"},
	"auth/oidc":     {"", "auth"},
	"hostname":      {""},
	"pack":          {""},
	"release":       {"", "pack", "internal/zipfile"},
	"rewrite":       {"", "hostname"},
	"policy":        {"", "hostname", "store"},
	"sights":        {"", "store"},
	"requests":      {"", "store"},
	"downloads":     {"", "store"},
	"fair":          {""},
	"proxy":         {"", "hostname", "rewrite", "auth", "fair", "release"},
	"cache":         {"", "fair", "store"},
	"ledger":        {""},
	"catalog":       {""},
	"ahead":         {"", "closure"},
	"closure":       {"", "hostname", "lockfile", "store"},
	"bundle":        {"", "hostname", "ledger", "pack", "policy", "release", "store"},
	"nested":        {"", "closure", "fair", "fetch", "internal/memory", "pack", "rewrite"},
	"lock":          {"", "hostname", "ledger", "lockfile", "rewrite", "internal/hint"},
	"lockfile":      {"", "hostname"},
	"store":         {""},
	"store/disk":    {"", "store", "internal/boltfile"},
	"config":        {"", "hostname", "auth", "auth/oidc", "egress", "policy", "internal/hint"},
	"admin":         {"", "bundle", "hostname", "ledger", "cache", "closure", "pack", "policy", "release", "requests", "store", "internal/hint"},
	"internal/hint": {},
	"upstream":      {"", "fair", "egress", "fetch", "fetch/archive", "pack", "release", "internal/hedge"},
	"egress":        {"", "fair", "internal/hedge"},
	"fetch":         {"", "egress", "pack", "internal/memory"},
	"fetch/git":     {"", "egress", "pack", "fetch"},
	"fetch/web":     {"", "egress", "pack", "fetch", "fetch/archive"},
	"fetch/archive": {"", "pack", "internal/zipfile"},
	"":              {},
	"cmd/modproxy":  {"", "app", "admin", "auth", "bundle", "closure", "config", "conformance", "fetch/git", "hostname", "ledger", "lock", "lockfile", "policy", "static", "store", "internal/hint"},
	"static":        {"", "hostname", "release"},
	"conformance":   {""}, // and net/http: it acts as a client, so it cannot use egress

	"internal/boltfile": {},
	"internal/clean":    {},
	"internal/durable":  {},
	"internal/filelock": {},
	"internal/hedge":    {""},
	"internal/memory":   {},
	"internal/spool":    {},
	"internal/zipfile":  {},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", self+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// The imports of packages are part of the design: see the table in CONTRIBUTING.md.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, self), "/")
		seen[name] = true
		test := strings.HasSuffix(name, "test") || strings.HasPrefix(name, "test/")
		for _, imported := range p.Imports {
			inside, ours := strings.CutPrefix(imported, self)
			inside = strings.TrimPrefix(inside, "/")
			if allowed, ok := layers[name]; ours && ok && !slices.Contains(allowed, inside) && !slices.Contains(anywhere, inside) {
				t.Errorf("%q imports %q: layers meet in the root package and in app only", name, inside)
			}
			if ours || test || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
				continue
			}
			if !slices.Contains(homeOf(imported), name) {
				t.Errorf("%q imports %s, which has another home: %q", name, imported, homeOf(imported))
			}
			if name == "" {
				t.Errorf("the root package imports %s: it has the standard library only", imported)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("there is no package %q: the table is out of date", name)
		}
	}
}

func homeOf(imported string) []string {
	var best string
	for prefix := range homes {
		if strings.HasPrefix(imported+"/", prefix+"/") && len(prefix) > len(best) {
			best = prefix
		}
	}
	return homes[best]
}
