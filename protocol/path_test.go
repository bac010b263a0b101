package protocol_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/protocol"
)

var vpc = modproxy.Address{Host: "registry.terraform.io", Namespace: "terraform-aws-modules", Name: "vpc", System: "aws"}

const vpcPath = "/registry.terraform.io~/v1/modules/terraform-aws-modules/vpc/aws/6.6.0/vpc-aws-6.6.0.tar.gz"

// packagePath returns the path of the package of a module's version.
func packagePath(v modproxy.Ref) string {
	return protocol.Request{Kind: protocol.KindPackage, Ref: v}.Path()
}

// parsePackage is the inverse of packagePath.
func parsePackage(path string) (modproxy.Ref, error) {
	q, err := anyUpstream.Parse("", path)
	if err == nil && q.Kind != protocol.KindPackage {
		err = fmt.Errorf("%w: it is for %s", modproxy.ErrInvalid, q.Kind)
		q = protocol.Request{}
	}
	return q.Ref, err
}

var anyUpstream = &protocol.Upstreams{Any: true}

func TestParsePackagePath(t *testing.T) {
	for path, want := range map[string]string{
		vpcPath: "registry.terraform.io/terraform-aws-modules/vpc/aws 6.6.0",
		"/127.0.0.1~8443/v1/modules/a/b/c/1.0.0+x.1/b-c-1.0.0+x.1.tar.gz":         "127.0.0.1:8443/a/b/c 1.0.0+x.1",
		"/127.0.0.1~8443/v1/modules/a/b/c/1.0.0%2Bx.1/b-c-1.0.0%2bx.1.tar.gz":     "127.0.0.1:8443/a/b/c 1.0.0+x.1",
		"/xn--bcher-kva.example~/v1/modules/a/b/c/1.0.0-rc1/b-c-1.0.0-rc1.tar.gz": "xn--bcher-kva.example/a/b/c 1.0.0-rc1",
		"":                               "",
		strings.TrimPrefix(vpcPath, "/"): "",
		vpcPath + "/":                    "",
		"/" + vpcPath:                    "",
		strings.Replace(vpcPath, "6.6.0/", "v6.6.0/", 1):                        "",
		strings.Replace(vpcPath, "-6.6.0", "-6.6.1", 1):                         "",
		strings.Replace(vpcPath, "vpc/aws", "vpc%2Faws", 1):                     "",
		strings.Replace(vpcPath, "vpc/aws", "../aws", 1):                        "",
		strings.Replace(vpcPath, "registry.terraform", "Registry.Terraform", 1): "",
		strings.Replace(vpcPath, "/v1/modules", "/v1%2Fmodules/x", 1):           "",
		strings.Replace(vpcPath, "v1", "v2", 1):                                 "",
		strings.Replace(vpcPath, "~", "", 1):                                    "",
		strings.Replace(vpcPath, "~", "~443", 1):                                "",
		strings.Replace(vpcPath, "~", "~~", 1):                                  "",
		strings.Replace(vpcPath, "~", ":8443~", 1):                              "",
		strings.Replace(vpcPath, "vpc", "v%zz", 1):                              "",
		strings.Replace(vpcPath, "vpc", "v%00", 1):                              "",
	} {
		v, err := parsePackage(path)
		got := v.String()
		if err != nil {
			got = ""
			if !errors.As(err, new(*protocol.Error)) || v != (modproxy.Ref{}) {
				t.Errorf("the package path %q = %v, %v", path, v, err)
			}
		}
		if got != want {
			t.Errorf("the package path %q = %q, %v; want %q", path, got, err, want)
		}
	}
}

// repository matches text in X-Terraform-Get that common/lib/dependabot/source.rb of dependabot-core treats as a repository
// of a known host.
var repository = regexp.MustCompile(`github\.com[/:][\w.-]+/[\w.-]+|gitlab\.com[/:][^/]+/[^/]+|bitbucket\.org[/:][\w.-]+/[\w.-]+` +
	`|azure\.com[/:][\w.-]+/([\w.-]+/)?_git/[\w.-]+|(http://|https://|git://|ssh://)git-codecommit.*\.com/v1/repos/`)

func TestPackagePathIsNoRepository(t *testing.T) {
	if !repository.MatchString("https://modules.example.com/gitlab.com/v1/modules/acme/vpc/aws/1.0.0/vpc-aws-1.0.0.tar.gz") {
		t.Fatal("a path in which the host stands as it is, is none")
	}
	for _, host := range []string{
		"github.com", "gitlab.com", "bitbucket.org", "dev.azure.com", "git-codecommit.us-east-1.amazonaws.com", "my-github.com", "eu.gitlab.com",
	} {
		for _, port := range []string{"", ":8443"} {
			m := modproxy.Address{Host: host + port, Namespace: "acme", Name: "vpc", System: "aws"}
			for _, version := range []string{"1.0.0", "1.0.0-gitlab.com", "1.0.0+x.github.com"} {
				path := packagePath(m.At(version))
				for _, url := range []string{"https://modules.example.com" + path, "https://modules.example.com:8443/s_AQFrA1fQ" + path + "//modules/x"} {
					if found := repository.FindString(url); found != "" {
						t.Errorf("%s has the repository %s", url, found)
					}
				}
				if v, err := parsePackage(path); err != nil || v != m.At(version) {
					t.Errorf("%s is %v, %v", path, v, err)
				}
			}
		}
	}
}

// The version parsed from a path has that path. The path of a version parses to that version.
func FuzzPackagePath(f *testing.F) {
	f.Add(vpcPath, "registry.terraform.io", "terraform-aws-modules", "vpc", "aws", "6.6.0")
	f.Add("/a.b:1/v1/modules/%61/b/c/1.0.0/b-c-1.0.0.tar.gz", "a.b:1", "A", "b_c", "0", "1.0.0-a+b")
	f.Fuzz(func(t *testing.T, path, host, namespace, name, system, version string) {
		if v, err := parsePackage(path); err == nil {
			if again, err := parsePackage(packagePath(v)); err != nil || again != v {
				t.Fatalf("%q is %v, whose path is %q", path, v, packagePath(v))
			}
		}
		h, err := hostname.Parse(host)
		m := modproxy.Address{Host: h, Namespace: namespace, Name: name, System: system}
		v, err2 := modproxy.CanonicalVersion(version)
		if err != nil || err2 != nil || m.Check() != nil {
			return
		}
		if again, err := modproxy.CanonicalVersion(v); err != nil || again != v {
			t.Fatalf("the canonical spelling of %q is %q, and of that %q, %v", version, v, again, err)
		}
		given := m.At(v)
		if got, err := parsePackage(packagePath(given)); err != nil || got != given {
			t.Fatalf("the path of %v is %q, which is %v, %v", given, packagePath(given), got, err)
		}
		if found := repository.FindString("https://proxy.example" + packagePath(given) + "//modules/x"); found != "" {
			t.Fatalf("the path of %v is %q, which has the repository %q", given, packagePath(given), found)
		}
	})
}

func ExampleRequest_Path() {
	q := protocol.Request{Kind: protocol.KindPackage, Ref: vpc.At("6.6.0")}
	fmt.Println(q.Path())
	// Output: /registry.terraform.io~/v1/modules/terraform-aws-modules/vpc/aws/6.6.0/vpc-aws-6.6.0.tar.gz
}

func BenchmarkParsePackagePath(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := anyUpstream.Parse("", vpcPath); err != nil {
			b.Fatal(err)
		}
	}
}
