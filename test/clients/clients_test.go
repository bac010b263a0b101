package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// dir contains files that all tests share.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "clients-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// built builds modproxy once for all worlds.
var built = sync.OnceValue(func() error {
	program, err := rig.Program(context.Background(), dir)
	if err != nil {
		return err
	}
	return os.Setenv(rig.ProgramVariable, program)
})

// The clients that are run for every change get their results with the settings of docs/how-to/other-tools.md and no
// others.
func TestClients(t *testing.T) { runAll(t, false) }

// Clients that need descriptions of modules get the same ones for cached packages.
func TestKept(t *testing.T) { runAll(t, true) }

func runAll(t *testing.T, kept bool) {
	if err := errors.Join(rig.DependOnSources(), built()); err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context(), kept)
	t.Cleanup(func() { w.close() })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if !c.always || kept && !c.kept {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program, _, err := c.find()
			if err != nil {
				rig.Missing(t, "%s %s: %v", c.name, c.version, err)
			}
			for _, anonymous := range c.ways() {
				if !rig.Long() && c.open && anonymous != kept {
					continue // "make clients" runs both ways of both worlds
				}
				asked, err := w.run(t.Context(), c, program, anonymous)
				t.Logf("anonymous: %v, asked: %s", anonymous, asked)
				if err != nil {
					t.Errorf("anonymous: %v: %v", anonymous, err)
				}
			}
		})
	}
}

// read matches the source of a statement about a program that was not run.
var read = regexp.MustCompile(`^Not run\. As read in the source of \S.* \d+\.\d+\.\d+: `)

// Every statement about a program in docs/how-to/other-tools.md was tested with the named versions, or says that the
// program was not run and where the statement comes from.
func TestDocument(t *testing.T) {
	d, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	run, always := map[string][]string{}, map[string]bool{}
	for _, c := range clients {
		always[c.name] = always[c.name] || c.always
		run[c.name] = append(run[c.name], c.version)
		if d[c.name] == nil {
			t.Errorf("%s has no section", c.name)
		}
	}
	delete(d, "")
	for title, s := range d {
		versions, known := run[title]
		if !known {
			if !read.MatchString(s.status) {
				t.Errorf("%s was not run; its section begins with %q", title, s.status)
			}
			continue
		}
		said := strings.Join(versionIn.FindAllString(s.status, -1), " ")
		if how := "Run with every change "; strings.HasPrefix(s.status, how) != always[title] {
			t.Errorf("%s: want %q at the beginning if it is, not %q", title, how, s.status)
		}
		if !strings.HasPrefix(s.status, "Run ") || said != strings.TrimSpace(strings.Join(versions, " ")) {
			t.Errorf("%s was run in the versions %q; its section begins with %q", title, versions, s.status)
		}
	}
}
