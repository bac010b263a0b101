package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

const (
	call     = "module \"network\" {\n  source  = \"acme/network/aws\"\n  version = \"1.1.0\"\n  cidr    = \"10.0.0.0/8\"\n}\n"
	required = "terraform {\n  required_providers {\n    toy = { source = \"acme/toy\" }\n  }\n}\n"
)

// installs makes Terraform or OpenTofu initialise three configurations: one with a provider, whose registry is the
// proxy by the CLI configuration in the section; the one in the section, whose source names the proxy; and one whose
// registry is the proxy by the name server of the site.
func installs(registry string) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		for _, way := range []struct{ dir, code, config string }{
			{"host", call + required, s.block("hcl", 0)},
			{"own", s.block("hcl", 1), ""},
			{"dns", call + required, ""},
		} {
			rc, err := s.write(way.dir+".tfrc", way.config)
			if err != nil {
				return err
			}
			if _, err := s.write(way.dir+"/main.tf", way.code); err != nil {
				return err
			}
			cmd := s.command(ctx, way.dir, s.block("sh", 0), s.program, "init", "-no-color", "-input=false")
			cmd.Env = append(cmd.Env, "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+rc)
			if _, err := output(cmd); err != nil {
				return fmt.Errorf("%s: %w", way.dir, err)
			}
			if err := s.installed(way.dir); err != nil {
				return fmt.Errorf("%s: %w", way.dir, err)
			}
		}
		return nil
	}
}

// terragrunt makes Terragrunt download the sources in the blocks of the section, and run Terraform there.
func terragrunt(ctx context.Context, s *session) error {
	terraform, err := rig.FindClient("terraform")
	if err != nil {
		return err
	}
	settings := s.block("sh", 0) + "export TG_TF_PATH=" + terraform + "\n"
	for _, way := range []struct{ dir, code string }{{"own", s.block("hcl", 0)}, {"dns", s.block("hcl", 1)}} {
		if _, err := s.write(way.dir+"/terragrunt.hcl", way.code); err != nil {
			return err
		}
		if _, err := output(s.command(ctx, way.dir, settings, s.program, "init", "--non-interactive")); err != nil {
			return fmt.Errorf("%s: %w", way.dir, err)
		}
		fetched, err := filepath.Glob(filepath.Join(s.dir, way.dir, ".terragrunt-cache", "*", "*", "modules", "peering", "main.tf"))
		if err != nil || len(fetched) != 1 {
			return fmt.Errorf("%s: it has fetched %q: %v", way.dir, fetched, err)
		}
	}
	return nil
}

// infracost makes Infracost download the modules that a configuration calls. Without a price service it fails at the
// end.
func infracost(ctx context.Context, s *session) error {
	if _, err := s.write("own/main.tf", s.block("hcl", 0)); err != nil {
		return err
	}
	settings := s.block("sh", 0) + "export INFRACOST_API_KEY=none\nexport INFRACOST_SKIP_UPDATE_CHECK=true\n"
	out, _ := s.command(ctx, "own", settings, s.program, "breakdown", "--path=.").CombinedOutput()
	fetched, err := filepath.Glob(filepath.Join(s.dir, "own", ".infracost", "terraform_modules", "*", "modules", "peering", "main.tf"))
	if err != nil || len(fetched) != 1 {
		return fmt.Errorf("it has fetched %q: %v: %s", fetched, err, out)
	}
	return nil
}

// terrascan makes Terrascan print what it reads in a configuration and the called modules.
func terrascan(ctx context.Context, s *session) error {
	rc, err := s.write("terraformrc", s.block("hcl", 0))
	if err != nil {
		return err
	}
	if _, err := s.write("own/main.tf", s.block("hcl", 1)); err != nil {
		return err
	}
	if _, err := s.write("policies/none.rego", ""); err != nil {
		return err
	}
	settings := "export TF_CLI_CONFIG_FILE=" + rc + "\nexport GOLANG_PROTOBUF_REGISTRATION_CONFLICT=ignore\n" // as its releases are linked
	cmd := s.command(ctx, "own", settings, s.program, "scan", "--iac-type=terraform", "--policy-path=../policies", "--config-only", "--output=json")
	out, err := output(cmd)
	if err == nil && !strings.Contains(out, "toy_gate") {
		err = fmt.Errorf("it does not read the module: %s", out)
	}
	return err
}

// trivy makes Trivy scan a configuration that calls the module by the name of the proxy. If clients need no token,
// Trivy also scans one that calls the module by the name of the registry, because it sends no token there.
func trivy(ctx context.Context, s *session) error {
	ways := []struct{ dir, code string }{{"own", s.block("hcl", 0)}}
	if s.token == "" {
		ways = append(ways, struct{ dir, code string }{"dns", call})
	}
	settings := s.block("sh", 0)
	for _, way := range ways {
		if _, err := s.write(way.dir+"/main.tf", way.code); err != nil {
			return err
		}
		temp := filepath.Join(s.dir, way.dir+".tmp") // its cache of modules
		if err := os.Mkdir(temp, 0o700); err != nil {
			return err
		}
		cmd := s.command(ctx, way.dir, settings+"export TMPDIR="+temp+"\n", s.program, "config",
			"--skip-check-update", "--skip-version-check", "--disable-telemetry", "--debug", ".")
		out, err := output(cmd)
		if err != nil {
			return fmt.Errorf("%s: %w", way.dir, err)
		}
		fetched, err := filepath.Glob(filepath.Join(temp, ".aqua", "cache", "*", "modules", "peering", "main.tf"))
		if err != nil || len(fetched) != 1 {
			return fmt.Errorf("%s: it has fetched %q: %v: %s", way.dir, fetched, err, out)
		}
	}
	return nil
}

// installed returns an error unless version 1.1.0 of the module network is installed.
func (s *session) installed(dir string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, dir, ".terraform", "modules", "modules.json"))
	if err != nil {
		return err
	}
	var list struct {
		Modules []struct{ Key, Version, Dir string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, m := range list.Modules {
		if m.Key == "network" && m.Version == "1.1.0" {
			_, err := os.Stat(filepath.Join(s.dir, dir, m.Dir, "modules", "peering", "main.tf"))
			return err
		}
	}
	return fmt.Errorf("version 1.1.0 is not installed: %s", text)
}
