package rewrite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/rewrite"
)

var vpc = modproxy.Module{Host: "registry.terraform.io", Namespace: "terraform-aws-modules", Name: "vpc", System: "aws"}

const vpcPath = "/registry.terraform.io/v1/modules/terraform-aws-modules/vpc/aws/6.6.0/vpc-aws-6.6.0.tar.gz"

func TestParsePackagePath(t *testing.T) {
	for path, want := range map[string]string{
		vpcPath: "registry.terraform.io/terraform-aws-modules/vpc/aws 6.6.0",
		"/127.0.0.1:8443/v1/modules/a/b/c/1.0.0+x.1/b-c-1.0.0+x.1.tar.gz":        "127.0.0.1:8443/a/b/c 1.0.0+x.1",
		"/127.0.0.1:8443/v1/modules/a/b/c/1.0.0%2Bx.1/b-c-1.0.0%2bx.1.tar.gz":    "127.0.0.1:8443/a/b/c 1.0.0+x.1",
		"/xn--bcher-kva.example/v1/modules/a/b/c/1.0.0-rc1/b-c-1.0.0-rc1.tar.gz": "xn--bcher-kva.example/a/b/c 1.0.0-rc1",
		"":                               "",
		strings.TrimPrefix(vpcPath, "/"): "",
		vpcPath + "/":                    "",
		"/" + vpcPath:                    "",
		strings.Replace(vpcPath, "6.6.0/", "v6.6.0/", 1):                        "",
		strings.Replace(vpcPath, "-6.6.0", "-6.6.1", 1):                         "",
		strings.Replace(vpcPath, "vpc/aws", "vpc%2Faws", 1):                     "",
		strings.Replace(vpcPath, "vpc/aws", "../aws", 1):                        "",
		strings.Replace(vpcPath, "registry.terraform", "Registry.Terraform", 1): "",
		strings.Replace(vpcPath, "v1", "v2", 1):                                 "",
		strings.Replace(vpcPath, "vpc", "v%zz", 1):                              "",
		strings.Replace(vpcPath, "vpc", "v%00", 1):                              "",
	} {
		v, err := rewrite.ParsePackagePath(path)
		got := v.String()
		if err != nil {
			got = ""
			if !errors.Is(err, modproxy.ErrInvalid) || v != (modproxy.ModuleVersion{}) {
				t.Errorf("ParsePackagePath(%q) = %v, %v", path, v, err)
			}
		}
		if got != want {
			t.Errorf("ParsePackagePath(%q) = %q, %v; want %q", path, got, err, want)
		}
	}
}

// A path that is understood is the path of what it is understood as, and what
// is written is understood as what it was written for.
func FuzzPackagePath(f *testing.F) {
	f.Add(vpcPath, "registry.terraform.io", "terraform-aws-modules", "vpc", "aws", "6.6.0")
	f.Add("/a.b:1/v1/modules/%61/b/c/1.0.0/b-c-1.0.0.tar.gz", "a.b:1", "A", "b_c", "0", "1.0.0-a+b")
	f.Fuzz(func(t *testing.T, path, host, namespace, name, system, version string) {
		if v, err := rewrite.ParsePackagePath(path); err == nil {
			if again, err := rewrite.ParsePackagePath(rewrite.PackagePath(v)); err != nil || again != v {
				t.Fatalf("%q is %v, whose path is %q", path, v, rewrite.PackagePath(v))
			}
		}
		h, err := hostname.Parse(host)
		m := modproxy.Module{Host: h, Namespace: namespace, Name: name, System: system}
		v, err2 := modproxy.CanonicalVersion(version)
		if err != nil || err2 != nil || m.Check() != nil {
			return
		}
		if again, err := modproxy.CanonicalVersion(v); err != nil || again != v {
			t.Fatalf("the canonical spelling of %q is %q, and of that %q, %v", version, v, again, err)
		}
		given := m.At(v)
		if got, err := rewrite.ParsePackagePath(rewrite.PackagePath(given)); err != nil || got != given {
			t.Fatalf("the path of %v is %q, which is %v, %v", given, rewrite.PackagePath(given), got, err)
		}
	})
}

func ExamplePackagePath() {
	fmt.Println(rewrite.PackagePath(vpc.At("6.6.0")))
	// Output: /registry.terraform.io/v1/modules/terraform-aws-modules/vpc/aws/6.6.0/vpc-aws-6.6.0.tar.gz
}
