package catalog_test

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/catalog"
)

const (
	answers   = 32      // large answers
	answerOf  = 2 << 20 // bytes of one answer
	mayRemain = 24 << 20
)

// verbose describes every version with much text, and remembers nothing.
type verbose struct{ *site }

func much() string { return strings.Repeat("x", answerOf) }

func (verbose) Details(_ context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	return &modproxy.Details{Summary: modproxy.Summary{Ref: v, Description: much()}}, nil
}

func (verbose) History(_ context.Context, m modproxy.Address) (*modproxy.History, error) {
	return &modproxy.History{Module: m, Versions: []modproxy.DatedVersion{{Version: "1.0.0", Description: much()}}}, nil
}

// Describe implements [catalog.Reader].
func (verbose) Describe(_ context.Context, _ *modproxy.Package, d *modproxy.Details) error {
	d.Root.Readme = much()
	return nil
}

// The memory of a Catalog does not grow with the number and size of its answers.
func TestMemoryIsBounded(t *testing.T) {
	all := make([]modproxy.Address, answers)
	s := &site{versions: map[modproxy.Address][]string{}, held: map[modproxy.Ref]bool{}, err: fs.ErrNotExist}
	for i := range all {
		all[i] = network
		all[i].Name = fmt.Sprint("network", i)
		s.versions[all[i]], s.held[all[i].At("1.0.0")] = []string{"1.0.0"}, true
	}
	for name, ask := range map[string]func(*catalog.Catalog, modproxy.Address) error{
		"what a registry says of versions": func(c *catalog.Catalog, m modproxy.Address) error {
			_, err := c.Details(t.Context(), m.At("1.0.0"))
			return err
		},
		"what it says of modules": func(c *catalog.Catalog, m modproxy.Address) error {
			_, err := c.History(t.Context(), m)
			return err
		},
		"what packages say": func(c *catalog.Catalog, m modproxy.Address) error {
			c.Next = s // Next does not answer
			_, err := c.Details(t.Context(), m.At("1.0.0"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(s)
			c.Next, c.Reader = verbose{s}, verbose{s}
			before := inUse()
			for _, m := range all {
				if err := ask(c, m); err != nil {
					t.Fatal(err)
				}
			}
			if now := inUse() - before; now > mayRemain {
				t.Errorf("%s remain of %s", modproxy.SizeText(now), modproxy.SizeText(answers*answerOf))
			}
			runtime.KeepAlive(c)
		})
	}
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
