package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// older and olderProvider are configurations with known updates.
const (
	older         = "module \"network\" {\n  source  = \"acme/network/aws\"\n  version = \"1.0.0\"\n}\n"
	olderProvider = "terraform {\n  required_providers {\n    toy = {\n      source  = \"acme/toy\"\n      version = \"1.0.0\"\n    }\n  }\n}\n"
)

// renovate makes Renovate look for new versions of modules that are called by the site's name server and by the name of
// the proxy, and again with the second configuration of the section, in which only the name of the proxy leads to it.
func renovate(ctx context.Context, s *session) error {
	for name, text := range map[string]string{
		"repository/dns/main.tf":           older,
		"repository/tofu/main.tf":          strings.Replace(older, "acme", "registry.opentofu.org/acme", 1),
		"repository/own/main.tf":           strings.Replace(older, "acme", own+"/acme", 1),
		"repository/written/main.tf":       strings.Replace(older, "acme", "registry.terraform.io/acme", 1),
		"repository/tfr/terragrunt.hcl":    "terraform {\n  source = \"tfr://registry.opentofu.org/acme/network/aws?version=1.0.0\"\n}\n",
		"repository/provider/main.tf":      olderProvider,
		"repository/tofu-provider/main.tf": strings.Replace(olderProvider, "acme", "registry.opentofu.org/acme", 1),
	} {
		if _, err := s.write(name, text); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}} {
		if _, err := output(s.command(ctx, "repository", "", "git", args...)); err != nil {
			return err
		}
	}
	const undated = "[{1.1.0 } {2.0.0 }]" // the protocol has no dates
	const dated = "[{1.1.0 2025-02-03T04:05:06.000Z} {2.0.0 2025-06-07T08:09:10.000Z}]"
	const provider = "[{1.1.0 2025-04-05T06:07:08.000Z}]"
	for n, want := range []map[string]string{
		{"dns": dated, "tofu": dated, "own": undated, "written": dated, "tfr": dated, "provider": provider, "tofu-provider": provider},
		{"dns": undated, "own": undated, "written": undated, "tfr": dated}, // modules of other registries are found there
	} {
		settings := s.block("json", n)
		if s.token == "" {
			settings = withoutTokens.ReplaceAllString(settings, "")
		}
		config, err := s.write(fmt.Sprintf("renovate%d.json", n), settings)
		if err != nil {
			return err
		}
		node := filepath.Join(filepath.Dir(s.program), "..", "..", node, "bin", "node")
		cmd := s.command(ctx, "repository", "", node, s.program, "--platform=local", "--dry-run=lookup", "--require-config=ignored")
		cmd.Env = append(cmd.Env, "LOG_LEVEL=debug", "LOG_FORMAT=json", "RENOVATE_CONFIG_FILE="+config)
		out, err := output(cmd)
		if err != nil {
			return err
		}
		for dir, want := range want {
			got := found(out, dir)
			if s.kept { // the dates are the first-seen times of modproxy
				got, want = date.ReplaceAllString(got, "date"), date.ReplaceAllString(want, "date")
			}
			if got != want {
				return fmt.Errorf("configuration %d, %s: it found %s: %s", n, dir, got, out[max(0, len(out)-1000):])
			}
		}
	}
	return nil
}

// withoutTokens matches the rules of the section that have a token.
var withoutTokens = regexp.MustCompile(`(?s)\s*"hostRules": \[.*?\](,\n)?`)

var date = regexp.MustCompile(`\d+-\d\d-\d\dT[0-9:.]+Z`)

// found returns the updates in Renovate's log for the module that is called in a directory, each with its date.
func found(log, dir string) string {
	for line := range strings.Lines(log) {
		var event struct {
			Msg    string
			Config map[string][]struct {
				PackageFile string
				Deps        []struct {
					Updates []struct{ NewVersion, ReleaseTimestamp string }
				}
			}
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.Msg != "packageFiles with updates" {
			continue
		}
		for _, file := range append(event.Config["terraform"], event.Config["terragrunt"]...) {
			if filepath.Dir(file.PackageFile) == dir && len(file.Deps) == 1 {
				return fmt.Sprint(file.Deps[0].Updates)
			}
		}
	}
	return "nothing"
}

// tfupdate makes tfupdate print the newest version.
func tfupdate(ctx context.Context, s *session) error {
	cmd := s.command(ctx, "", s.block("sh", 0), s.program, "release", "latest", "--source-type", "tfregistryModule", "acme/network/aws")
	out, err := output(cmd)
	if err == nil && strings.TrimSpace(out) != "2.0.0" {
		err = fmt.Errorf("the newest version is %q", out)
	}
	return err
}

// updatecli makes Updatecli look for the newest version.
func updatecli(ctx context.Context, s *session) error {
	manifest, err := s.write("updatecli.yaml", s.block("yaml", 0))
	if err != nil {
		return err
	}
	// Outside CI, it also looks for a newer Updatecli.
	out, err := output(s.command(ctx, "", "", s.program, "pipeline", "diff", "--config", manifest))
	if err == nil && !strings.Contains(out, "2.0.0") {
		err = fmt.Errorf("it does not find version 2.0.0: %s", out)
	}
	return err
}

// tells makes the MCP server find a module, its newest version and its inputs, and a provider, its newest version and,
// if its registry has them, its documents.
func tells(ctx context.Context, s *session) error {
	r, err := talkTo(s.command(ctx, "", "", s.program, "stdio", "--toolsets=registry"), false)
	if err != nil {
		return err
	}
	defer r.end()
	err = r.call("initialize", map[string]any{
		"protocolVersion": "2025-03-26", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "modproxy", "version": "0"},
	}, &struct{}{})
	if err != nil {
		return err
	}
	if err := r.notify("notifications/initialized", map[string]any{}); err != nil {
		return err
	}
	type question struct {
		tool      string
		arguments map[string]any
		want      string
	}
	toy := func(of, kind string) map[string]any {
		return map[string]any{"provider_namespace": "acme", "provider_name": "toy", "service_slug": of, "provider_document_type": kind}
	}
	all := []question{
		{"get_module_details", map[string]any{"module_id": "acme/network/aws/1.1.0"}, "The range of addresses."},
		{"search_modules", map[string]any{"module_query": "network"}, "acme/network/aws"},
		{
			"get_latest_module_version",
			map[string]any{"module_publisher": "acme", "module_name": "network", "module_provider": "aws"}, "2.0.0",
		},
		{"get_latest_provider_version", map[string]any{"namespace": "acme", "name": "toy"}, "1.1.0"},
	}
	if !s.kept { // only the registry has the documents
		all = append(all,
			question{"search_providers", toy("gate", "resources"), "providerDocID: 30002\n- Title: gate\n- Category: resources\n- Description: Makes a gate."},
			question{"search_providers", toy("gate", "data-sources"), "providerDocID: 30003"},
			question{"search_providers", toy("toy", "guides"), "From one gate to the next."},
			question{"search_providers", toy("toy", "overview"), "It has toy gates."},
			question{"get_provider_details", map[string]any{"provider_doc_id": "30002"}, "The arguments of a gate."},
			question{"get_provider_capabilities", map[string]any{"namespace": "acme", "name": "toy"}, "Guides: 1 available"},
		)
	}
	for _, ask := range all {
		var answer struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err := r.call("tools/call", map[string]any{"name": ask.tool, "arguments": ask.arguments}, &answer); err != nil {
			return err
		}
		if said := fmt.Sprint(answer.Content); answer.IsError || !strings.Contains(said, ask.want) {
			return fmt.Errorf("%s: it says %s", ask.tool, said)
		}
	}
	return nil
}
