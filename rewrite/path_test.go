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
		m, version, err := rewrite.ParsePackagePath(path)
		got := fmt.Sprint(m, " ", version)
		if err != nil {
			got = ""
			if !errors.Is(err, modproxy.ErrInvalid) || m != (modproxy.Module{}) || version != "" {
				t.Errorf("ParsePackagePath(%q) = %v, %q, %v", path, m, version, err)
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
		if m, v, err := rewrite.ParsePackagePath(path); err == nil {
			again, v2, err := rewrite.ParsePackagePath(rewrite.PackagePath(m, v))
			if err != nil || again != m || v2 != v {
				t.Fatalf("%q is %v %q, whose path is %q", path, m, v, rewrite.PackagePath(m, v))
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
		got, gotVersion, err := rewrite.ParsePackagePath(rewrite.PackagePath(m, v))
		if err != nil || got != m || gotVersion != v {
			t.Fatalf("the path of %v %q is %q, which is %v %q, %v", m, v, rewrite.PackagePath(m, v), got, gotVersion, err)
		}
	})
}

func ExamplePackagePath() {
	fmt.Println(rewrite.PackagePath(vpc, "6.6.0"))
	// Output: /registry.terraform.io/v1/modules/terraform-aws-modules/vpc/aws/6.6.0/vpc-aws-6.6.0.tar.gz
}
