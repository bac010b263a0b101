package main_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy/test/rig"
)

// runInstalls compares the modules that the client installs for configurations with those that modproxy predicts.
func runInstalls(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	env, err := w.environ(ts)
	ts.Check(err)
	i := configs{dir: ts.MkAbs("."), tool: w.tool, program: w.program, env: env, fails: neg}
	for len(args) > 2 && args[0] == "-var" {
		i.vars, args = append(i.vars, args[1]), args[2:]
	}
	var dirs []string
	for _, pattern := range args {
		found, err := filepath.Glob(ts.MkAbs(pattern))
		if err != nil || len(found) == 0 {
			ts.Fatalf("usage: [!] installs [-var NAME=VALUE]… DIR…: %s: %v", pattern, err)
		}
		dirs = append(dirs, found...)
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, dir := range dirs {
		group.Go(func() error { return i.compare(dir) })
	}
	ts.Check(group.Wait())
	ts.Logf("%d configurations", len(dirs))
}

// configs are configurations for a client.
type configs struct {
	dir, tool, program string
	env, vars          []string
	fails              bool // the client and modproxy must fail
}

func (c configs) compare(dir string) error {
	got := []string{"get", "-no-color"}
	said := []string{"policy", "report", "--json", "--client", c.tool, dir}
	for _, v := range c.vars {
		got, said = append(got, "-var="+v), append(said, "--var="+v)
	}
	client, errClient := c.run(c.program, append([]string{"-chdir=" + dir}, got...)...)
	proxy, errProxy := c.run(built, said...)
	if c.fails {
		if errClient == nil || errProxy == nil {
			return fmt.Errorf("%s: one does not fail: %v %s\n%v %s", dir, errClient, client, errProxy, proxy)
		}
		return nil
	}
	if errClient != nil || errProxy != nil {
		return fmt.Errorf("%s: %v %s\n%v %s", dir, errClient, client, errProxy, proxy)
	}
	installed, err := rig.Installed(dir)
	if err != nil || len(installed) == 0 {
		return fmt.Errorf("%s: %s installs nothing: %v %s", dir, c.tool, err, client)
	}
	foreseen, err := rig.Foreseen(proxy)
	if err == nil && !slices.Equal(foreseen, installed) {
		err = fmt.Errorf("%s: %s installs\n%s\nand modproxy says\n%s", dir, c.tool, strings.Join(installed, "\n"), strings.Join(foreseen, "\n"))
	}
	return err
}

func (c configs) run(program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, err
}

// runGenerate writes a random fixture and random configurations that call its modules.
func runGenerate(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 || neg {
		ts.Fatalf("usage: generate FIXTURE CONFIGS N SEED")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	seed, err := strconv.ParseUint(args[3], 10, 64)
	ts.Check(err)
	g := &generator{rand.New(rand.NewPCG(seed, 1)), ts.MkAbs("."), ts}
	g.fixture(args[0])
	for i := range n {
		g.config(path.Join(args[1], fmt.Sprint(i)))
	}
}

type generator struct {
	*rand.Rand
	dir string
	ts  *testscript.TestScript
}

const generated = 8 // modules of the fixture; each calls only later ones

var (
	anyVersions = []string{"1.0.0", "1.0.1", "1.1.0", "1.2.0-beta.1", "1.2.0", "1.10.0", "2.0.0-rc1", "2.0.0"}
	constraints = []string{
		"", "", "1.0.0", "= 1.0.0", "~> 1.0", "~> 1.0.0", ">= 1.0", "> 1.0.0, < 2.0.0", "!= 2.0.0", "<= 1.1", "< 2.0.0-rc1", ">= 1.2.0-beta.1",
		"2.0.0-rc1", "=1.2.0-beta.1", "v1.0", "~>1", ">= 1.0, != 1.10.0, < 2", "> 0.9 , < 1.10",
	}
)

func (g *generator) write(name, text string) {
	at := filepath.Join(g.dir, filepath.FromSlash(name))
	g.ts.Check(os.MkdirAll(filepath.Dir(at), fs.ModePerm))
	f, err := os.OpenFile(at, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	g.ts.Check(err)
	_, err = f.WriteString(text)
	g.ts.Check(err)
	g.ts.Check(f.Close())
}

func (g *generator) pick(list []string) string { return list[g.IntN(len(list))] }

// fixture writes modules with versions such that each constraint matches one.
func (g *generator) fixture(dir string) {
	for m := range generated {
		for _, version := range anyVersions {
			if (version == "1.1.0" || version == "1.10.0" || version == "2.0.0") && g.IntN(3) == 0 {
				continue
			}
			at := fmt.Sprintf("%s/modules/gen/m%d/aws/%s", dir, m, version)
			g.write(at+"/main.tf", "# "+version+"\n")
			g.write(at+"/modules/sub/main.tf", "")
			for call := range g.IntN(3) {
				g.call(at, []string{".", "modules/sub"}, m+1, call)
			}
			g.write(at+"/modules/unused/main.tf", "module \"x\" { source = \"registry.acme.example/gen/nothing/aws\" }\n")
			g.write(at+"/tests/x.tftest.hcl", "run \"x\" {\n  module {\n    source = \"registry.acme.example/gen/nothing/aws\"\n  }\n}\n")
		}
	}
}

// call writes a call of a module with number from or higher, in one of the directories below at.
func (g *generator) call(at string, dirs []string, from, number int) {
	if from >= generated {
		return
	}
	source := fmt.Sprintf("gen/m%d/aws", from+g.IntN(generated-from))
	source = g.pick([]string{"", "registry.acme.example/", "registry.acme.example/", "Registry.ACME.example/"}) + source + g.pick([]string{"", "", "//modules/sub"})
	dir := g.pick(dirs)
	if g.IntN(6) == 0 {
		g.write(path.Join(at, dir, fmt.Sprintf("j%d.tf.json", number)), fmt.Sprintf(`{"module": {"j%d": {"source": %q%s}}}`, number, source, g.version(`, "version": %q`)))
	} else {
		g.write(path.Join(at, dir, "main.tf"), fmt.Sprintf("module \"c%d\" {\n  source = %q\n%s}\n", number, source, g.version("  version = %q\n")))
	}
	if dir != "." {
		g.write(path.Join(at, "main.tf"), fmt.Sprintf("module \"l%d\" { source = %q }\n", number, "./"+dir))
	}
}

func (g *generator) version(format string) string {
	if constraint := g.pick(constraints); constraint != "" {
		return fmt.Sprintf(format, constraint)
	}
	return ""
}

// config writes a configuration.
func (g *generator) config(at string) {
	g.write(at+"/main.tf", "")
	g.write(at+"/local/a/main.tf", "")
	g.write(path.Join(at, "../../common", path.Base(at), "main.tf"), "")
	for call := range 1 + g.IntN(6) {
		g.call(at, []string{".", ".", "local/a", "../../common/" + path.Base(at)}, 0, call)
	}
	switch g.IntN(3) {
	case 0:
		g.write(at+"/main.tf", "module \"o\" {\n  source = \"registry.acme.example/gen/m7/aws\"\n  version = \"1.0.0\"\n  count = 0\n}\n")
		g.write(at+"/override.tf", "module \"o\" {\n"+g.version("  version = %q\n")+"}\n")
	case 1: // instead of main.tf
		g.write(at+"/main.tofu", "module \"t\" {\n  source = \"registry.acme.example/gen/m6/aws\"\n"+g.version("  version = %q\n")+"}\n")
	}
	if g.IntN(3) == 0 {
		g.write(at+"/tests/a.tftest.hcl", "run \"x\" {\n  module {\n    source = \"registry.acme.example/gen/m5/aws\"\n"+g.version("    version = %q\n")+"  }\n}\n")
	}
}
