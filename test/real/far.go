package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// providers are the providers that the configurations need, in versions that all of them allow. Clients only copy
// providers during initialisation, so their content does not matter.
var providers = map[string]string{
	"azure/azapi":           "2.99.0",
	"azure/modtm":           "0.99.0",
	"hashicorp/aws":         "6.99.0",
	"hashicorp/azurerm":     "4.99.0",
	"hashicorp/cloudinit":   "2.99.0",
	"hashicorp/external":    "2.99.0",
	"hashicorp/google":      "7.99.0",
	"hashicorp/google-beta": "7.99.0",
	"hashicorp/kubernetes":  "2.99.0",
	"hashicorp/local":       "2.99.0",
	"hashicorp/null":        "3.99.0",
	"hashicorp/random":      "3.99.0",
	"hashicorp/time":        "0.99.0",
	"hashicorp/tls":         "4.99.0",
	"ibm-cloud/ibm":         "1.99.0",
}

// runFar calls far in a process of its own.
func (s *settings) runFar(ctx context.Context, tools string, args []string) (code int, err error) {
	if s.tools, err = findTools(tools); err != nil {
		return 2, err
	}
	if err := isolate("198.51.100.53"); err != nil {
		return 1, err
	}
	gitHome = s.dir
	if err := s.far(ctx, args[0], args[1]); err != nil {
		return 1, err
	}
	return 0, nil
}

// far is the side without an internet: it imports a bundle, and makes the clients initialise a configuration. It prints
// its steps as lines of a table.
func (s *settings) far(ctx context.Context, week, key string) error {
	dir := filepath.Join(s.dir, "far")
	env := append(environment(dir), "MODPROXY_DATA="+filepath.Join(dir, "data"), "MODPROXY_LISTEN=127.0.0.1:8080",
		"MODPROXY_OFFLINE=true", "MODPROXY_BUNDLE_KEYS="+key)
	modproxy := func(args ...string) (string, error) { return command(ctx, dir, env, s.proxy, args...) }
	do := func(what string, f func() (string, error)) error { return row(os.Stdout, week, "far", what, f) }
	bundle := filepath.Join(s.dir, week+".bundle")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, what := range []string{"import", "import again"} {
		if err := do(what, func() (string, error) { return imported(modproxy("import", "--json", bundle)) }); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.proxy, "serve")
	cmd.Env = env
	server, err := rig.Start(cmd, filepath.Join(dir, "modproxy.log"))
	if err != nil {
		return err
	}
	defer server.Stop()
	url, err := server.URL(ctx)
	if err != nil {
		return err
	}
	hosts, err := modproxy("client-config", "--url", url)
	if err != nil {
		return err
	}
	if err := s.writeClientConfig(dir, hosts); err != nil {
		return err
	}
	for _, tool := range s.tools {
		if err := do(filepath.Base(tool)+" init", func() (string, error) {
			work, err := s.configuration("far", week, tool)
			if err == nil {
				_, err = command(ctx, work, append(environment(dir), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "client.tfrc")),
					tool, "init", "-no-color", "-input=false", "-backend=false")
			}
			return "", err
		}); err != nil {
			return err
		}
	}
	if err := do("modproxy missing", func() (string, error) {
		out, err := modproxy("missing")
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return "nothing", err
	}); err != nil {
		return err
	}
	return do("packets sent", func() (string, error) { return "0", errors.Join(server.Stop(), silent(ctx)) })
}

// silent returns an error if packets were sent, or if their number is unknown.
func silent(ctx context.Context) error {
	n, err := attempts()
	if err == nil && n > 0 {
		err = fmt.Errorf("%d", n)
	}
	if err != nil {
		return err
	}
	// Check that attempts are counted.
	if a := rig.Get(ctx, "https://"+registryHost); a.Err == nil {
		return fmt.Errorf("%s answers on the far side", registryHost)
	}
	if n, err = attempts(); err == nil && n == 0 {
		err = errors.New("attempts are not counted")
	}
	return err
}

// writeClientConfig writes the configuration of the clients: hosts are served by modproxy, and providers come from a
// directory.
func (s *settings) writeClientConfig(dir, hosts string) error {
	mirror := filepath.Join(dir, "providers")
	for _, host := range registries {
		for name, version := range providers {
			at := filepath.Join(mirror, host, name, version, runtime.GOOS+"_"+runtime.GOARCH)
			if err := os.MkdirAll(at, 0o700); err != nil {
				return err
			}
			program := filepath.Join(at, "terraform-provider-"+filepath.Base(name)+"_v"+version)
			if err := os.WriteFile(program, []byte("it is not run\n"), 0o700); err != nil {
				return err
			}
		}
	}
	config := fmt.Sprintf("%s\nprovider_installation {\n  filesystem_mirror { path = %q }\n}\n", hosts, mirror)
	return os.WriteFile(filepath.Join(dir, "client.tfrc"), []byte(config), 0o600)
}

// imported describes the result of "modproxy import --json".
func imported(out string, err error) (string, error) {
	var all struct {
		Summary struct{ Sequence, Added, Kept, Refused, Absent int64 }
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	b := all.Summary
	return fmt.Sprintf("bundle %d: %d added, %d stored before, %d refused, %d absent",
		b.Sequence, b.Added, b.Kept, b.Refused, b.Absent), err
}

// attempts returns the number of packets without a route since this network namespace was created. Every packet to
// another machine is counted.
func attempts() (n int64, err error) {
	four, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		return 0, err
	}
	six, err := os.ReadFile("/proc/self/net/snmp6")
	if err != nil {
		return 0, err
	}
	add := func(text string) {
		count, bad := strconv.ParseInt(text, 10, 64)
		n, err = n+count, errors.Join(err, bad)
	}
	var names []string
	for line := range strings.Lines(string(four)) {
		switch fields := strings.Fields(line); {
		case len(fields) == 0 || fields[0] != "Ip:":
		case names == nil:
			names = fields
		default:
			add(fields[slices.Index(names, "OutNoRoutes")])
		}
	}
	for line := range strings.Lines(string(six)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "Ip6OutNoRoutes" {
			add(fields[1])
		}
	}
	return n, err
}
