package suggest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/tfconfig"
	"github.com/modproxy/modproxy/upstream/tags"
)

// forge is a getter of repositories that all have one tag.
type forge struct{ tag string }

const commit = "0123456789abcdef0123456789abcdef01234567"

func (f *forge) Check(context.Context, fetch.Source) error            { return nil }
func (f *forge) Commit(context.Context, fetch.Source) (string, error) { return commit, nil }
func (f *forge) Fetch(context.Context, fetch.Source, *pack.Builder) (fetch.Result, error) {
	return fetch.Result{}, modproxy.ErrNotFound
}
func (f *forge) Tags(_ context.Context, _ fetch.Source, prefixes ...string) ([]fetch.Tag, error) {
	if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.tag, p) }) {
		return []fetch.Tag{{Name: f.tag, Commit: commit}}, nil
	}
	return nil, nil
}

func (f *forge) NamedTags(_ context.Context, _ fetch.Source, names ...string) ([]fetch.Tag, error) {
	if slices.Contains(names, f.tag) {
		return []fetch.Tag{{Name: f.tag, Commit: commit}}, nil
	}
	return nil, nil
}

// check checks that a registry with the suggested mappings serves each new source and version from the repository, the directory and the
// tag of the old source, and that each call of a git repository is listed.
func check(t testing.TB, sources []string) {
	t.Helper()
	s := of(t, sources...)
	forge := &forge{}
	c := tags.Config{Host: host, Fetch: &fetch.Table{Getters: map[string]fetch.Getter{"git": forge}}}
	for _, m := range s.Mappings {
		mapping, err := tags.ParseMapping(m.Address, m.Source, m.Path, m.Tags)
		if err != nil {
			t.Fatalf("%q: %+v: %v", sources, m, err)
		}
		c.Modules = append(c.Modules, mapping)
	}
	registry, err := tags.New(c)
	if err != nil {
		t.Fatalf("%q: %v", sources, err)
	}
	for _, change := range s.Changes {
		old, err := modproxy.ParseLocation(sources[change.Line-1], &url.URL{})
		if err != nil {
			t.Fatal(err)
		}
		wanted, _ := url.Parse(old.URL)
		ref := wanted.Query().Get("ref")
		_, tag, isFull := strings.Cut(ref, "tags/")
		if forge.tag = ref; isFull && (strings.HasPrefix(ref, "refs/tags/") || strings.HasPrefix(ref, "tags/")) {
			forge.tag = tag
		}
		m, subdir, ok := tfconfig.ParseRegistrySource(change.Source, "")
		if !ok {
			t.Fatalf("%q: the source %q is not a module of a registry", sources, change.Source)
		}
		l, err := registry.Location(t.Context(), m.At(change.Version))
		if err != nil {
			t.Fatalf("%q: %+v: %v", sources, change, err)
		}
		got, err := url.Parse(l.URL)
		if err != nil || repository(got) != repository(wanted) || path.Join(l.Subdir, subdir) != path.Join(old.Subdir, ".") {
			t.Fatalf("%q: %+v is at %s, %v", sources, change, l, err)
		}
	}
}

func repository(u *url.URL) string {
	return strings.ToLower(u.Hostname()) + "/" + strings.TrimSuffix(strings.Trim(u.EscapedPath(), "/"), ".git")
}

func FuzzSuggest(f *testing.F) {
	for _, all := range cases {
		f.Add(strings.Join(all.sources, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, strings.Split(text, "\n")) })
}

// Sources that are made from a few words follow conventions, and their modules compete for addresses.
func TestSuggestAnything(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		one := func(words ...string) string { return words[r.IntN(len(words))] }
		var sources []string
		for range r.IntN(40) {
			repo := one("acme", "acme", "acme", "b/c", "b-c") + "/" + one("terraform-aws-", "terraform-google-", "tf-module-", "tf-module-", "terraform-", "") +
				one("vpc", "eks", "log-sink", "VPC", "modules", "vpc-2")
			dir := one("", "", "", "", "", "", "//vpc", "//aws/vpc", "//aws/eks", "//google/vpc", "//modules/vpc", "//modules/terraform-aws-vpc", "//vpc/modules/aws")
			tag := one("v", "v", "v", "", "", "", "vpc/v", "eks-", "aws/vpc/v", "aws/eks/v", "google/vpc/v", "terraform-aws-vpc@", "release-", "refs/tags/", "aws-vpc-v") +
				fmt.Sprintf("1.%d.0", r.IntN(3)) + one("", "", "-rc.1")
			sources = append(sources, one("git::https://git.example.com/"+repo+one("", ".git", ".git")+dir+"?ref="+tag,
				"git::ssh://git@git.example.com/"+repo+".git"+dir+"?ref="+tag, "git@git.example.com:"+repo+".git"+dir+"?ref="+tag,
				"github.com/"+repo+dir+"?ref="+tag, "acme/vpc/aws"))
		}
		check(t, sources)
	}
}
