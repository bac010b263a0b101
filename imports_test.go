package modproxy_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const self = "github.com/modproxy/modproxy"

// homes are the packages that may import a dependency, and so the places where it can be replaced.
var homes = map[string][]string{
	"go.uber.org/zap":                               {"httpx", "proxy", "app"},
	"github.com/gorilla/mux":                        {"proxy"},
	"github.com/prometheus/client_golang":           {"httpx", "proxy"},
	"go.etcd.io/bbolt":                              {"store/disk"},
	"github.com/hashicorp/go-retryablehttp":         {"egress"},
	"github.com/hashicorp/golang-lru":               {"internal/memory"},
	"github.com/coreos/go-oidc":                     {"auth/oidc"},
	"github.com/go-jose/go-jose":                    {"auth/oidc"},
	"golang.org/x/time":                             {"upstream", "upstream/ask", "httpx"},
	"golang.org/x/sync/errgroup":                    {"store", "upstream", "history", "backup", "bundle", "nested", "catalog"},
	"golang.org/x/sync/singleflight":                {"history"},
	"github.com/klauspost/compress":                 {"pack", "fetch/archive", "tfconfig", "nested", "release"},
	"github.com/ulikunitz/xz":                       {"fetch/archive"},
	"github.com/hashicorp/hcl":                      {"tfconfig"},
	"github.com/hashicorp/hcl/v2":                   {"tfconfig"},
	"github.com/zclconf/go-cty":                     {"tfconfig"},
	"github.com/hashicorp/terraform-config-inspect": {"tfconfig"},
	"github.com/apparentlymart/go-versions":         {"closure"},
	"golang.org/x/mod":                              {"ledger", "lock", "app", "bundle", "static"},
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

// levels are the packages in the order in which they may import each other: each imports only packages that are listed before it,
// in a level above or earlier in its own.
var levels = []struct {
	name     string
	packages []string
}{
	{"vocabulary", []string{""}},
	{"tools", []string{
		"internal/clean", "internal/durable", "internal/filelock", "internal/memory", "internal/spool", "internal/hint", "internal/hedge",
		"internal/zipfile", "internal/exacttar", "internal/boltfile", "internal/datadir", "internal/systemd", "hostname", "internal/versionname", "pack",
		"release", "protocol",
		"protocol/documents", "internal/slots", "internal/flight", "internal/retry",
	}},
	{"outgoing", []string{"egress", "fetch", "fetch/archive", "fetch/git", "fetch/web", "fetch/oci", "upstream/ask", "upstream", "upstream/tags"}},
	{"storage", []string{"store", "store/disk", "ledger"}},
	{"configurations", []string{"lockfile", "tfconfig", "closure"}},
	{"layers", []string{"observe", "history", "cache", "policy", "rewrite", "nested", "prefetch", "auth", "auth/oidc"}},
	{"features", []string{"backup", "bundle", "lock", "mirror", "catalog", "static", "suggest", "conformance"}},
	{"protocols", []string{"httpx", "proxy", "webhook", "admin"}},
	{"configuration", []string{"config"}},
	{"application", []string{"app", "doctor"}},
	{"command", []string{"cmd/modproxy"}},
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

// TestImports checks that packages import only downwards, and that each dependency is imported only in its home.
func TestImports(t *testing.T) {
	rank := map[string]int{}
	for _, level := range levels {
		for _, name := range level.packages {
			rank[name] = len(rank)
		}
	}
	seen, used := map[string]bool{}, map[[2]string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, self), "/")
		seen[name] = true
		own, isRanked := rank[name]
		test := strings.HasSuffix(name, "test") || strings.HasPrefix(name, "test/")
		if !isRanked && !test {
			t.Errorf("package %q has no level", name)
		}
		for _, imported := range p.Imports {
			inside, ours := strings.CutPrefix(imported, self)
			inside = strings.TrimPrefix(inside, "/")
			if other, ok := rank[inside]; ours && !test && (!ok || other >= own) {
				t.Errorf("%q imports %q, which is not listed before it", name, inside)
			}
			if ours || test || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
				continue
			}
			dependency := dependencyOf(imported)
			used[[2]string{dependency, name}] = true
			if !slices.Contains(homes[dependency], name) {
				t.Errorf("%q imports %s, which has another home: %q", name, imported, homes[dependency])
			}
			if name == "" {
				t.Errorf("the root package imports %s: it has the standard library only", imported)
			}
		}
	}
	for name := range rank {
		if !seen[name] {
			t.Errorf("there is no package %q: the list is out of date", name)
		}
	}
	for dependency, all := range homes {
		for _, name := range all {
			if !used[[2]string{dependency, name}] && !strings.HasPrefix(name, "test/") {
				t.Errorf("%q does not import %s: the list is out of date", name, dependency)
			}
		}
	}
}

// dependencyOf returns the entry of homes that an import belongs to, or an empty string.
func dependencyOf(imported string) (best string) {
	for prefix := range homes {
		if strings.HasPrefix(imported+"/", prefix+"/") && len(prefix) > len(best) {
			best = prefix
		}
	}
	return best
}

// packageRow finds the row of one or more packages in the table of CONTRIBUTING.md, and packageName each name in its first column.
var (
	packageRow  = regexp.MustCompile("(?m)^\\| ((?:`[^`]+`(?:, )?)+) \\| [^|]+ \\| [^|]+ \\|$")
	packageName = regexp.MustCompile("`([^`]+)`")
)

// TestContributingPackages checks that the table of packages in CONTRIBUTING.md has every package of levels once, and no package that does
// not exist.
func TestContributingPackages(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| package | purpose | read first |\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no table of packages")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]int{}
	for _, row := range packageRow.FindAllStringSubmatch(table, -1) {
		for _, name := range packageName.FindAllStringSubmatch(row[1], -1) {
			rows[name[1]]++
		}
	}
	exists := map[string]bool{}
	for _, p := range list(t) {
		exists[cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, self), "/"), ".")] = true
	}
	for _, level := range levels {
		for _, name := range level.packages {
			if n := rows[cmp.Or(name, ".")]; n != 1 {
				t.Errorf("the table has package %q %d times; want once", name, n)
			}
		}
	}
	for name := range rows {
		if !exists[name] {
			t.Errorf("the table has package %q, which does not exist", name)
		}
	}
}
