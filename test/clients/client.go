package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/modproxy/modproxy/test/rig"
)

// A client is one version of a program that sends requests to a registry.
type client struct {
	name    string // title of its section in docs/how-to/other-tools.md
	version string // "" for the version on PATH
	program string // file name
	always  bool   // it is run for every change, and must not be missing then
	made    maker  // nil if it cannot be built from Go modules or npm packages: it is run if it is installed in the directory of tools or on PATH
	run     func(context.Context, *session) error
	without string // kind of the request that it sends without its token, and that may fail
	kept    bool   // it gets the same results from cached packages, if the registry describes no modules
	open    bool   // its section has a token, and it gets the same results without one if clients need none
}

// clients contains all clients, in the order of the table.
var clients = func() []*client {
	all := []*client{
		{name: "Terraform", program: "terraform", always: true, run: installs("registry.terraform.io")},
		{name: "OpenTofu", program: "tofu", always: true, run: installs("registry.opentofu.org")},
	}
	for _, version := range []string{"1.5.7", "1.6.6", "1.7.5", "1.8.5", "1.9.8", "1.10.5", "1.12.2", "1.13.3", "1.14.9", "1.15.0"} {
		all = append(all, &client{
			name: "Terraform", version: version, program: "terraform",
			made: goModule{path: "github.com/hashicorp/terraform", main: ".", remoteState: true}, run: installs("registry.terraform.io"),
			always: version == "1.15.0", // it evaluates sources: the tests of tfconfig and closure run it, too
		})
	}
	for _, version := range []string{"1.6.3", "1.8.11", "1.9.4", "1.10.10", "1.11.5"} {
		all = append(all, &client{
			name: "OpenTofu", version: version, program: "tofu",
			made: goModule{path: "github.com/opentofu/opentofu", main: "./cmd/tofu", remoteState: true}, run: installs("registry.opentofu.org"),
		})
	}
	return append(all,
		&client{
			name: "Terragrunt", version: "1.1.3", program: "terragrunt", open: true,
			made: goModule{path: "github.com/gruntwork-io/terragrunt", main: "."}, run: terragrunt,
		},
		&client{name: "Renovate", version: "44.121.2", program: "renovate", always: true, made: npm{"renovate"}, run: renovate, kept: true, open: true},
		&client{
			name: "terraform-ls", version: "0.39.0", program: "terraform-ls", always: true,
			made: goModule{path: "github.com/hashicorp/terraform-ls", main: "."}, run: completes, kept: true,
		},
		&client{name: "terraform-mcp-server", version: "1.2.0", program: "terraform-mcp-server", run: tells, kept: true},
		&client{
			name: "tfupdate", version: "0.10.2", program: "tfupdate",
			made: goModule{path: "github.com/minamijoyo/tfupdate", main: "."}, run: tfupdate,
		},
		&client{
			name: "Infracost", version: "0.10.45", program: "infracost",
			made: goModule{path: "github.com/infracost/infracost", main: "./cmd/infracost"}, run: infracost,
		},
		&client{
			name: "Terrascan", version: "1.19.9", program: "terrascan",
			made: goModule{path: "github.com/tenable/terrascan", main: "./cmd/terrascan"}, run: terrascan, without: "provider_versions",
		},
		&client{
			name: "Trivy", version: "0.74.0", program: "trivy",
			made: goModule{path: "github.com/aquasecurity/trivy", main: "./cmd/trivy", experiments: "jsonv2"}, run: trivy, open: true,
		},
		&client{name: "Updatecli", version: "0.120.1", program: "updatecli", run: updatecli},
	)
}()

// ways reports for each run of the client whether it is without a token.
func (c *client) ways() []bool {
	if c.open {
		return []bool{false, true}
	}
	return []bool{false}
}

// tools returns the directory of built programs.
func tools() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "modproxy-tools"), err
}

// built returns the path of the program after it was built.
func (c *client) built() (string, error) {
	dir, err := tools()
	return filepath.Join(dir, c.program+"-"+c.version), err
}

// find returns the path of the program, and its version. After an error the path may be empty.
func (c *client) find() (path, version string, err error) {
	if c.version == "" {
		if path, err = rig.FindClient(c.program); err != nil {
			return "", "", err
		}
		out, err := exec.Command(path, "version").Output()
		return path, versionIn.FindString(string(out)), err
	}
	if path, err = c.built(); err != nil {
		return "", c.version, err
	}
	if c.made != nil {
		path = c.made.file(path)
	}
	if _, err = os.Stat(path); err == nil {
		return path, c.version, nil
	}
	if c.made == nil {
		path, err = exec.LookPath(c.program)
		return path, "on PATH", err
	}
	return "", c.version, err
}

var versionIn = regexp.MustCompile(`\d+\.\d+\.\d+`)

// make builds the program, unless it exists or cannot be built.
func (c *client) make(ctx context.Context) error {
	if c.made == nil {
		return nil
	}
	if _, _, err := c.find(); err == nil {
		return nil
	}
	path, err := c.built()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Printf("%s %s: building %s\n", c.name, c.version, path)
	if err := c.made.make(ctx, c.version, path); err != nil {
		return fmt.Errorf("%s %s: %w", c.name, c.version, err)
	}
	return nil
}
