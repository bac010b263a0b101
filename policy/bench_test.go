package policy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// many returns n rules that allow addresses of a format, and a rule for vpc.
func many(b *testing.B, n int, format string) *policy.Rules {
	c := policy.Config{DefaultDeny: true, Rules: []policy.Rule{rule(b, 0, "allow "+all)}}
	for i := range n {
		c.Rules = append(c.Rules, rule(b, i+1, "allow "+fmt.Sprintf(format, i)))
	}
	return compile(b, c)
}

// BenchmarkDecide measures a verdict about a module with a remembered selection, and about one without.
func BenchmarkDecide(b *testing.B) {
	for _, shape := range []struct{ name, format string }{
		{"literal", host + "/ns%d/*/*"},
		{"prefix", host + "/ns%d-*/*/*"},
		{"suffix", host + "/*-ns%d/*/*"},
		{"infix", host + "/*-%d-*/*/*"},
		{"alike", host + "/team-%d*-production-*/*/*"},
	} {
		for _, n := range []int{0, 10, 10_000} {
			if n == 0 && shape.name != "literal" {
				continue
			}
			g := policy.NewGate(&book{}, nil)
			g.Use(many(b, n, shape.format))
			modules := make([]modproxy.Address, 40_000) // more than are remembered
			for i := range modules {
				modules[i] = modproxy.Address{Host: host, Namespace: fmt.Sprintf("x-%d-production-ns", i), Name: "vpc", System: "aws"}
			}
			for name, about := range map[string][]modproxy.Address{"known": modules[:1], "new": modules} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, shape.name, n), func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if _, err := g.Decide(b.Context(), about[i%len(about)].At("1.0.0")); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkFollow measures reading a hundred thousand decisions, reading one more, and a verdict among them.
func BenchmarkFollow(b *testing.B) {
	made := func(i int) modproxy.Decision {
		m := vpc
		m.Name = fmt.Sprintf("m-%d", i%20_000)
		return modproxy.Decision{Address: m, Action: modproxy.Block, Versions: fmt.Sprintf("1.%d.0", i/20_000), Reason: "x", By: "eve", Time: day}
	}
	l := &book{}
	for i := range 100_000 {
		l.list = append(l.list, made(i))
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if err := policy.NewGate(l, nil).Follow(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	g := policy.NewGate(l, nil)
	if err := g.Follow(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("verdict", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if verdict, err := g.Decide(b.Context(), made(i).Address.At("1.3.0")); err != nil || verdict.Outcome != policy.Blocked {
				b.Fatal(verdict, err)
			}
		}
	})
	b.Run("more", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			l.add(made(i))
			if err := g.Follow(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAge measures a verdict that depends on the age of a version: an old version, and a version that is too
// young, for which the ledger is read as well.
func BenchmarkAge(b *testing.B) {
	seen := map[string]modproxy.VersionDates{}
	for i := range 300 {
		seen[fmt.Sprintf("1.%d.0", i)] = modproxy.VersionDates{Seen: time.Now().Add(-time.Duration(i) * time.Hour)}
	}
	g := policy.NewGate(&book{}, firstSeenTimes{vpc: {Module: time.Now().Add(-1000 * time.Hour), Versions: seen}})
	g.Use(rules(b, "allow age=24h "+all))
	for name, v := range map[string]string{"old": "1.299.0", "young": "1.0.0"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if verdict, err := g.Decide(b.Context(), vpc.At(v)); err != nil || verdict.Refused() != (name == "young") {
					b.Fatal(verdict, err)
				}
			}
		})
	}
}

// always is a registry with one document and one package, in memory.
type always struct {
	list    *modproxy.Versions
	content []byte // of every package
}

func (a always) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return a.list, nil
}

func (a always) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, modproxy.ErrNotFound
}

func (a always) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Body: inMemory{bytes.NewReader(a.content)}, Size: int64(len(a.content))}, nil
}

type inMemory struct{ *bytes.Reader }

func (inMemory) Verify(context.Context) error { return nil }

func (inMemory) Close() error { return nil }

// BenchmarkVersions measures listing 300 versions: with half of them hidden and the list remembered, with the list not
// remembered, and with all versions allowed.
func BenchmarkVersions(b *testing.B) {
	var listed []string
	seen := map[string]modproxy.VersionDates{}
	for i := range 300 {
		listed = append(listed, fmt.Sprintf("1.%d.0", i))
		seen[listed[i]] = modproxy.VersionDates{}
	}
	v, err := document(strings.Join(listed, " "))
	if err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct {
		name, deny string
		forget     bool
	}{{"remembered", ">= 1.150", false}, {"filtered", ">= 1.150", true}, {"whole", "> 9", true}} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			r := rules(b, "allow age=24h "+all, "deny "+all+" "+test.deny)
			g := policy.NewGate(&book{}, firstSeenTimes{vpc: {Module: time.Now().Add(-48 * time.Hour), Versions: seen}})
			g.Use(r)
			layer := &policy.Registry{Next: always{list: v}, Gate: g}
			for b.Loop() {
				if test.forget {
					g.Use(r)
				}
				if _, err := layer.Versions(b.Context(), vpc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPackage measures sending a package of five megabytes from memory, with a check of every piece and without.
func BenchmarkPackage(b *testing.B) {
	next := always{content: make([]byte, 5<<20)}
	for name, r := range map[string]*policy.Rules{"rules": rules(b, "allow "+all), "none": compile(b, policy.Config{})} {
		g := policy.NewGate(&book{}, nil)
		g.Use(r)
		for kind, reg := range map[string]modproxy.Registry{"guarded": &policy.Registry{Next: next, Gate: g}, "bare": next} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(next.content)))
				for b.Loop() {
					p, err := reg.Package(b.Context(), vpc.At("1.0.0"))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(writer{}, p.Body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// writer reads everything written to it, and does not implement [io.ReaderFrom].
type writer struct{}

func (writer) Write(p []byte) (int, error) {
	_ = bytes.Count(p, []byte("y"))
	return len(p), nil
}

// BenchmarkDecisions measures a verdict among many approved versions, and reading their decisions.
func BenchmarkDecisions(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		decided := &book{}
		for i := range n {
			decided.decide(modproxy.Approve, fmt.Sprintf("1.%d.0", i))
		}
		r := rules(b, "allow approval "+all)
		b.Run(fmt.Sprintf("follow/%d", n), func(b *testing.B) {
			for b.Loop() {
				g := policy.NewGate(decided, nil)
				g.Use(r)
				if err := g.Follow(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/decision")
		})
		b.Run(fmt.Sprintf("decide/%d", n), func(b *testing.B) {
			g := policy.NewGate(decided, nil)
			g.Use(r)
			if err := g.Follow(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if verdict, err := g.Decide(b.Context(), vpc.At("1.7.0")); err != nil || verdict.Refused() {
					b.Fatal(verdict, err)
				}
			}
		})
	}
}
