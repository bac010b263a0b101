// Command real compares real modules installed through modproxy with git's own checkouts.
//
//	make real REPOS=DIR
//	go run ./test/real -repos DIR
//
// It installs every version of every module and compares files, bytes and executable bits.
//
// DIR contains bare repositories as DIR/OWNER/NAME.git, DIR/OWNER+NAME/repo or similar: owner and name are the last two
// parts of the path other than "repo". Every tag that is a semantic version, with or without a v, is a version of the
// module that a registry makes of the repository: OWNER/terraform-SYSTEM-NAME is OWNER/NAME/SYSTEM. Repositories that
// are submodules of others are found by their URL at github.com.
//
// The internet is a network namespace in which registry.terraform.io and github.com are this program. It needs Linux,
// and root or user namespaces. The tested program is ./cmd/modproxy, built now, or the one of -proxy.
//
// With -form git the registry locates a version by its tag, with commit by the id of its commit, and with abbreviated
// by the beginning of the id. With subdirectory the location contains a directory of the repository, a different one
// for each version. With branch the versions are HEAD and the branches. With archive and zip the packages are archives
// that the forge makes of the tags, and are compared with the files that tar unpacks from them. They have no
// submodules. With tags modproxy asks for tags only: it maps each module, as an own one, to its repository.
//
// For each version it requests versions, location and package from modproxy over HTTP, and makes a git checkout with
// "git submodule update --init --recursive". Links are read as package pack defines: as the files that they name, and
// left out if they name nothing in the tree. For each repository it prints how many versions are equal, differ, are
// refused although git has them, or fail with git as well, and one line for each version that is not equal. The real
// clients then install the newest equal version of each repository, through modproxy and directly. Results are stored
// in -state, and are not repeated. The exit code is 1 if any version differs or is refused.
//
// With -gap it carries modules across a gap instead: those of two configurations and the modules that they call. The
// second configuration has newer modules. On the side with an internet, modproxy mirrors and exports them. In a
// namespace without a route it imports them, and clients initialise the configurations. It prints the durations. The
// exit code is 1 unless the clients get the same files on both sides and no packet was sent on the far side. It needs
// the repositories of the modules in the configurations, which are in the directory gap.
//
// With -closure it compares installed versions instead: for a configuration that calls a module and each of its
// submodules, the modules that "modproxy policy report" lists, with all that call each other, and the modules that the
// clients install.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/modproxy/modproxy/test/rig"
)

type settings struct {
	repos   string // directory of bare repositories
	form    string // one of forms
	only    string // substring of the names of the repositories to compare
	most    int    // maximum number of versions of a repository
	jobs    int    // versions at a time
	proxy   string // a built modproxy
	tools   []string
	state   string // file with finished results
	dir     string // scratch
	gap     bool
	closure bool // compare the modules that configurations install
	stderr  io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
	}
	stop()
	os.Exit(code)
}

func run(ctx context.Context) (code int, err error) {
	s := &settings{stderr: os.Stderr}
	flag.StringVar(&s.repos, "repos", os.Getenv("REPOS"), "directory of bare repositories; $REPOS")
	flag.StringVar(&s.form, "form", formGit, "form of packages: "+strings.Join(forms, ", "))
	flag.StringVar(&s.only, "only", "", "compare only repositories whose owner/name contains this")
	flag.IntVar(&s.most, "most", math.MaxInt, "maximum number of versions of a repository, the newest first")
	flag.IntVar(&s.jobs, "jobs", 3, "number of versions to download at a time")
	flag.StringVar(&s.proxy, "proxy", "", "path of a built modproxy")
	tools := flag.String("tools", "terraform,tofu", "clients that install the newest versions: names or paths, separated by commas")
	flag.StringVar(&s.state, "state", "", "file with the finished results, in JSON lines")
	flag.BoolVar(&s.closure, "closure", false, "compare the modules that modproxy foresees for configurations with those that the clients install")
	flag.StringVar(&s.dir, "scratch", os.TempDir(), "directory to work in")
	flag.BoolVar(&s.gap, "gap", false, "carry the modules of configurations to a side without a network instead")
	flag.Parse()
	if os.Getenv(rig.RoleVariable) == "far" {
		return s.runFar(ctx, *tools, flag.Args())
	}
	if s.repos == "" || flag.NArg() > 0 {
		return 2, errors.New("name a directory of bare repositories: make real REPOS=DIR")
	}
	if !slices.Contains(forms, s.form) {
		return 2, fmt.Errorf("-form: want one of %s", strings.Join(forms, ", "))
	}
	if s.tools, err = findTools(*tools); err != nil {
		return 2, err
	}
	if os.Getenv(rig.RoleVariable) == "" {
		return enterIsolation()
	}
	if s.repos, err = filepath.Abs(s.repos); err != nil {
		return 1, err
	}
	if s.dir, err = os.MkdirTemp(s.dir, "real-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(s.dir)
	if s.proxy == "" {
		s.proxy, err = rig.Program(ctx, s.dir)
	} else {
		s.proxy, err = filepath.Abs(s.proxy)
	}
	if err != nil {
		return 1, err
	}
	if err := isolate("127.0.0.1", append(registries, forgeHost)...); err != nil {
		return 1, err
	}
	if s.gap {
		return s.crossGap(ctx)
	}
	return s.compareAll(ctx)
}

// findTools finds the clients.
func findTools(names string) ([]string, error) {
	var tools []string
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		path, err := rig.FindClient(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: -tools says which clients there are", name, err)
		}
		tools = append(tools, path)
	}
	return tools, nil
}
