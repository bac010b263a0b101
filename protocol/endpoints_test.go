package protocol_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

// examples fill the names in the paths of endpoints. They are of ASCII, as addresses are.
var examples = strings.NewReplacer("{host}", "corp.example", "{port}", "8443", "{namespace}", "acme", "{name}", "toy", "{type}", "toy", "{system}", "aws",
	"{version}", "1.0.0", "{os}", "linux", "{arch}", "arm64", "{id}", "101", "{kind}", "guides", "{document}", "upgrade")

// expand returns the paths that a path with brackets describes.
func expand(path string) []string {
	end := strings.IndexByte(path, ']')
	if end < 0 {
		return []string{examples.Replace(path)}
	}
	start := strings.LastIndexByte(path[:end], '[')
	return append(expand(path[:start]+path[end+1:]), expand(path[:start]+path[start+1:end]+path[end+1:])...)
}

// Parse reads every path of the table as its kind, and Path makes that path. Every kind is in the table.
func TestEndpoints(t *testing.T) {
	u := &protocol.Upstreams{
		Hosts:   map[string]bool{"corp.example": true, "corp.example:8443": true},
		Default: "corp.example",
		Docs:    map[string]string{"docs.example": "corp.example"},
	}
	seen := map[protocol.Kind]bool{}
	for _, p := range protocol.Endpoints() {
		for _, e := range p.Endpoints {
			if seen[e.Kind] = true; strings.Contains(e.Path, protocol.DiscoveryPath) {
				continue
			}
			for _, path := range expand(e.Path) {
				requestHost := "corp.example"
				if strings.HasPrefix(e.Path, "/registry/docs/") {
					requestHost = "docs.example"
				}
				q, err := u.Parse(requestHost, path)
				if err != nil || !protocol.Covers(path) || q.Kind != e.Kind || q.Host != "corp.example" && q.Host != "corp.example:8443" {
					t.Errorf("%s: %+v, %v", path, q, err)
				}
				bare := q
				if !strings.HasPrefix(path, "/corp.example") && !protocol.IsMirror(path) {
					bare.Host = ""
				}
				if got := bare.Path(); got != path {
					t.Errorf("the path of %+v is %s; want %s", bare, got, path)
				}
				if again, err := u.Parse(requestHost, q.Path()); err != nil || again != q {
					t.Errorf("%s, the path of %+v, is read as %+v, %v", q.Path(), q, again, err)
				}
			}
		}
	}
	for _, kind := range []protocol.Kind{
		protocol.KindVersions, protocol.KindDownload, protocol.KindPackage, protocol.KindDownloads, protocol.KindList, protocol.KindSearch,
		protocol.KindDetails, protocol.KindHistory, protocol.KindDocs, protocol.KindMirrorIndex, protocol.KindMirrorVersion,
		protocol.KindProviderVersions, protocol.KindProviderSums, protocol.KindProviderSignature, protocol.KindProviderDownload,
		protocol.KindProviderPackage, protocol.KindProviderVersion, protocol.KindProviderDocuments, protocol.KindProviderDocument,
	} {
		if !seen[kind] {
			t.Errorf("there is no endpoint for %s", kind)
		}
	}
	if protocol.Covers("/-/healthz") {
		t.Error("a path of modproxy itself is taken for one of a protocol")
	}
}

// Variants of a module have paths, too: packages with rewritten sources are served there.
func TestPathOfVariant(t *testing.T) {
	m := modproxy.Address{Host: "corp.example", Namespace: "acme", Name: "toy", System: "aws"}
	v := m.At("1.0.0").NestedSource("1", modproxy.NewSum(modproxy.Digest{1}))
	for _, kind := range []protocol.Kind{protocol.KindDownload, protocol.KindPackage, protocol.KindDetails} {
		q := protocol.Request{Kind: kind, Ref: v}
		if again, err := anyUpstream.Parse("", q.Path()); err != nil || again != q {
			t.Errorf("%s: %+v, %v; want %+v", q.Path(), again, err, q)
		}
	}
}
