package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FindClient returns the path of Terraform or OpenTofu by its name or path. For tofu it uses MODPROXY_TOFU, then the
// program that tools/build-tofu.sh has built, then PATH.
func FindClient(name string) (string, error) {
	if name == "tofu" {
		built := os.Getenv("MODPROXY_TOFU")
		if cache, err := os.UserCacheDir(); err == nil && built == "" {
			built = filepath.Join(cache, "modproxy-tools", "tofu")
		}
		if path, err := exec.LookPath(built); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w (\"make tools\" builds tofu; terraform is taken from PATH)", err)
	}
	return path, nil
}

// Evaluating returns the paths of the clients that evaluate sources and versions: OpenTofu, and Terraform 1.15 as "make
// tools" builds it. A missing client is left out as by [Clients].
func Evaluating(t testing.TB) map[string]string {
	t.Helper()
	found := Clients(t)
	delete(found, "terraform")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(cache, "modproxy-tools", "terraform-1.15.0")
	switch path, err := exec.LookPath(built); {
	case err == nil:
		found["terraform"] = path
	case Required():
		t.Fatalf("%v (\"make tools\" builds it)", err)
	default:
		t.Logf("NOT RUN with Terraform 1.15: %v (\"make tools\" builds it)", err)
	}
	return found
}

// Clients returns the paths of Terraform and OpenTofu by their names. A client that is not installed is left out, with
// a line in the log, or fails the test if Required.
func Clients(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"terraform", "tofu"} {
		path, err := FindClient(name)
		switch {
		case err == nil:
			found[name] = path
		case Required():
			t.Fatal(err)
		default:
			t.Logf("NOT RUN with %s: %v", name, err)
		}
	}
	return found
}

// An Installation is a configuration whose modules or providers a client installs.
type Installation struct {
	Dir        string            // an existing directory for it
	Calls      map[string]string // arguments of each module block, by its name
	Providers  map[string]string // arguments of each required provider, by its name
	Registries map[string]string // base URL of modules.v1, or for Init of providers.v1, by host, in place of service discovery
	CAFile     string            // certificates that client and git trust
	Env        []string          // in addition to the variables that Get sets
}

// Get makes a client install the modules, without configuration of the user, and returns the directory that contains
// them.
func (i *Installation) Get(ctx context.Context, client string) (string, error) {
	return i.run(ctx, client, "get", "modules")
}

// Init makes a client install the providers, as Get does for modules, and returns the directory that contains them. The
// lock file is beside .terraform.
func (i *Installation) Init(ctx context.Context, client string) (string, error) {
	return i.run(ctx, client, "init", "providers")
}

// run runs a command of a client that fills a directory below .terraform.
func (i *Installation) run(ctx context.Context, client, verb, fills string) (string, error) {
	var code, config strings.Builder
	if len(i.Providers) > 0 {
		code.WriteString("terraform {\n  required_providers {\n")
		for name, arguments := range i.Providers {
			fmt.Fprintf(&code, "    %s = { %s }\n", name, arguments)
		}
		code.WriteString("  }\n}\n")
	}
	for name, arguments := range i.Calls {
		fmt.Fprintf(&code, "module %q {\n%s\n}\n", name, arguments)
	}
	for host, base := range i.Registries {
		fmt.Fprintf(&config, "host %q {\n  services = { \"%s.v1\" = %q }\n}\n", host, fills, base)
	}
	work, temp, rc := filepath.Join(i.Dir, "work"), filepath.Join(i.Dir, "tmp"), filepath.Join(i.Dir, "rc")
	for _, dir := range []string{work, temp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	for name, text := range map[string]string{filepath.Join(work, "main.tf"): code.String(), rc: config.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, client, verb, "-no-color")
	cmd.Dir, cmd.WaitDelay = work, 5*time.Second
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + i.Dir, "TMPDIR=" + temp, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"TF_CLI_CONFIG_FILE=" + rc, "SSL_CERT_FILE=" + i.CAFile, "GIT_SSL_CAINFO=" + i.CAFile,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
	}, i.Env...)
	installed := filepath.Join(work, ".terraform", fills)
	if out, err := cmd.CombinedOutput(); err != nil {
		return installed, fmt.Errorf("%s %s: %w\n%s", filepath.Base(client), verb, err, out)
	}
	return installed, nil
}
