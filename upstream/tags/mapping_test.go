package tags_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/upstream/tags"
)

func TestParseMapping(t *testing.T) {
	const source = "git::https://git.example.com/acme/{name}-{system}.git"
	for _, test := range []struct {
		line
		says string // part of the error
	}{
		{line{"acme/{name}/{system}", source, "", ""}, ""},
		{line{"acme/vpc/aws", "github.com/acme/vpc", "modules/vpc", "{system}/{name}/v{version}"}, ""},
		{line{"corp/{name}/{system}", "git::ssh://git@git.example.com/m.git", "{system}/{name}", "{system}/{name}/v{version}"}, ""},
		{line{"modules.example.com/acme/vpc/aws", source, "", ""}, "address: want namespace/name/system"},
		{line{"acme/x{name}/aws", source, "", ""}, "address: invalid"},
		{line{"{name}/vpc/aws", source, "", ""}, "address: invalid"},
		{line{"acme/{name}/{system}", "git::https://git.example.com/{name}", "{system}", ""}, "address: {system} must be in source or tags"},
		{line{"acme/{name}/aws", "git::https://{name}.example.com/a.git", "", ""}, "source: {name} and {system} may only be in the path"},
		{line{"acme/{name}/aws", "git::ssh://{name}@git.example.com/a.git", "", ""}, "source: {name} and {system} may only be in the path"},
		{line{"acme/{name}/aws", "git::https://git.example.com/{other}.git", "", ""}, "source: a brace"},
		{line{"acme/{name}/aws", "git::https://git.example.com/%7Bname%7D.git", "", ""}, "source: a brace"},
		{line{"acme/{name}/{system}", "oci://registry.example.com:5000/acme/{system}/{name}", "{name}", "{version}"}, ""},
		{line{"acme/vpc/aws", "oci://registry.example.com/acme/vpc", "", "aws/v{version}"}, "tags: no tag of an OCI repository"},
		{line{"acme/vpc/aws", "oci://registry.example.com/Acme/vpc", "", ""}, "source: want oci://host/repository, in lower case"},
		{line{"acme/vpc/aws", "oci://u@registry.example.com/acme/vpc", "", ""}, "source: want oci://host/repository, in lower case"},
		{line{"acme/vpc/aws", "oci::https://registry.example.com/acme/vpc", "", ""}, "source: want oci://host/repository"},
		{line{"acme/vpc/aws", "oci://registry.example.com/acme/vpc?tag=1", "", ""}, "source: must not have a query"},
		{line{"acme/vpc/aws", "https://git.example.com/a.git", "", ""}, "source: an archive has no tags; want a repository with tags, such as git::https"},
		{line{"acme/vpc/aws", "s3::https://s3.amazonaws.com/b/k.zip", "", ""}, "push the module to an OCI registry"},
		{line{"acme/vpc/aws", "gcs::https://www.googleapis.com/storage/x", "", ""}, "push the module to an OCI registry"},
		{line{"acme/vpc/aws", "hg::https://hg.example.com/a", "", ""}, "mirror the repository to git"},
		{line{"acme/vpc/aws", "file:///srv/a.git", "", ""}, "modproxy never reads local files"},
		{line{"acme/vpc/aws", "git::https://git.example.com/a.git?ref=main", "", ""}, "source: must not have a query"},
		{line{"acme/vpc/aws", "git::https://git.example.com/a.git//b", "", ""}, "source: must not have a subdirectory"},
		{line{"acme/vpc/aws", "git::https://u:p@git.example.com/a.git", "", ""}, "source: must not have a password"},
		{line{"acme/vpc/aws", "../a", "", ""}, "source:"},
		{line{"acme/vpc/aws", "", "", ""}, "source:"},
		{line{"acme/vpc/aws", source, "../a", ""}, "path:"},
		{line{"acme/vpc/aws", source, "/a", ""}, "path:"},
		{line{"acme/vpc/aws", source, "a/*", ""}, "path:"},
		{line{"acme/vpc/aws", source, "a//b", ""}, "path:"},
		{line{"acme/vpc/aws", source, "", "v"}, "tags: want {version} once"},
		{line{"acme/vpc/aws", source, "", "{version}{version}"}, "tags: want {version} once"},
		{line{"acme/vpc/aws", source, "", "v {version}"}, "tags: no tag"},
		{line{"acme/vpc/aws", source, "", "{other}/{version}"}, "tags: no tag"},
	} {
		_, err := tags.ParseMapping(test.line[0], test.line[1], test.line[2], test.line[3])
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: error %v, want %q", test.line, err, test.says)
		}
	}
}

func TestHiddenMapping(t *testing.T) {
	parse := func(address string) tags.Mapping {
		m, err := tags.ParseMapping(address, "git::https://git.example.com/{name}-{system}.git", "", "")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, test := range []struct {
		first, second string
		hidden        bool
	}{
		{"acme/vpc/aws", "acme/{name}/{system}", false}, {"acme/{name}/{system}", "acme/vpc/aws", true},
		{"acme/{name}/aws", "acme/{name}/{system}", false}, {"acme/vpc/aws", "acme/vpc/aws", true},
		{"acme/{name}/{system}", "acme/VPC/aws", false}, {"acme/{name}/{system}", "corp/vpc/aws", false},
	} {
		_, err := tags.New(tags.Config{Host: host, Modules: []tags.Mapping{parse(test.first), parse(test.second)}})
		if (err != nil) != test.hidden {
			t.Errorf("%s before %s: error %v", test.first, test.second, err)
		}
	}
}

// Every version that a tag names is canonical, and is named by that tag again.
func FuzzMatch(f *testing.F) {
	for _, tag := range []string{"v1.2.3", "1.2.3", "vv1.2.3", "v1.2", "v01.2.3", "aws/vpc/v1.2.3", "v1.2.3-rc.1+b", "v1.2.3\n", "v\xff", ""} {
		f.Add("v{version}", tag)
		f.Add("{system}/{name}/v{version}", tag)
		f.Add("{version}-x", tag)
	}
	f.Fuzz(func(t *testing.T, pattern, tag string) {
		m, err := tags.ParseMapping("acme/{name}/{system}", "git::https://git.example.com/{name}-{system}.git", "", pattern)
		if err != nil {
			return
		}
		a := modproxy.Address{Host: host, Namespace: "acme", Name: "vpc", System: "aws"}
		version, names, prefixes := tags.Match(m, a, tag)
		if version == "" {
			return
		}
		if canonical, err := modproxy.CanonicalVersion(version); err != nil || canonical != version {
			t.Fatalf("%q of %q is %q, not canonical", tag, pattern, version)
		}
		named, prefixed := false, false
		for _, name := range names {
			named = named || name == tag
		}
		for _, prefix := range prefixes {
			prefixed = prefixed || strings.HasPrefix(tag, prefix)
		}
		if !named || !prefixed {
			t.Fatalf("%q of %q is %q, which is at %q below %q", tag, pattern, version, names, prefixes)
		}
	})
}
