// Package chart tests chart, deploy/manifest.yaml, docker-compose.yml and the Dockerfile.
//
// The tests need no cluster, Helm or Docker. The libraries of Helm and Compose read the files, the code of the Kubernetes API server admits the
// objects, and modproxy runs with the configuration of each.
//
//	go test -C tools/chart            checks everything
//	go test -C tools/chart -update    also writes deploy/manifest.yaml
//
// The package is a module of its own because of its many dependencies.
package chart_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const (
	top      = "../.."
	chartDir = top + "/chart"
	manifest = top + "/deploy/manifest.yaml"
)

var update = flag.Bool("update", false, "write deploy/manifest.yaml")

// cases returns the values in chart/ci and in docs/how-to/kubernetes.md, by name.
func cases(t *testing.T) map[string]chartutil.Values {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files of values in %s/ci, %v", len(files), chartDir, err)
	}
	all := map[string]chartutil.Values{}
	for _, name := range files {
		values, err := chartutil.ReadValuesFile(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), "-values.yaml")] = values
	}
	for name, text := range valuesInPage(t) {
		values, err := chartutil.ReadValues([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = values
	}
	return all
}

var valuesBlock = regexp.MustCompile("(?ms)^ *<!-- file of: Helm -->\n *```yaml\n(.*?)^ *```\n")

// valuesInPage returns the values in docs/how-to/kubernetes.md, by line.
func valuesInPage(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(top + "/docs/how-to/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range valuesBlock.FindAllSubmatchIndex(text, -1) {
		line := 1 + bytes.Count(text[:m[2]], []byte("\n"))
		found[fmt.Sprintf("kubernetes.md:%d", line)] = string(text[m[2]:m[3]])
	}
	if len(found) == 0 {
		t.Fatal("docs/how-to/kubernetes.md has no values")
	}
	return found
}

// render returns the documents that "helm template modproxy chart" prints, in the order of their templates' names. Unlike helm, it returns an
// error if a template uses a value that does not exist, such as a misspelt name.
func render(values chartutil.Values) (documents []string, err error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "modproxy", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if text := strings.TrimSpace(rendered[name]); text != "" && filepath.Ext(name) == ".yaml" {
			documents = append(documents, text+"\n")
		}
	}
	return documents, nil
}

func mustRender(t *testing.T, values chartutil.Values) []string {
	t.Helper()
	documents, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// TestLint: "helm lint" has no warning or error about the chart, with any values.
func TestLint(t *testing.T) {
	for name, values := range cases(t) {
		for _, m := range lint.All(chartDir, values, namespace, true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// TestWrongValues: the chart refuses values with which modproxy would not start or not be ready, and values with secrets.
func TestWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		"replicaCount: 2":             "replicaCount",
		"config: {listen: ':80'}":     "/config/listen",
		"config: {data: /srv}":        "/config/data",
		"config: {shutdown: 1m}":      "/config/shutdown",
		"config: {tls: {}}":           "/config/tls",
		"shutdownSeconds: 30s":        "/shutdownSeconds",
		"existingSecrets: [../up]":    "/existingSecrets/0",
		"fullnameOverride: 1modproxy": "/fullnameOverride",
		"config: {upstreams: [{host: registry.example.com, token: secret}]}":            "/config/upstreams/0/token",
		"config: {credentials: [{host: git.example.com, password: secret}]}":            "/config/credentials/0/password",
		"env: [{name: MODPROXY_DATA, value: /srv}]":                                     "/env/0/name",
		"persistence: {readOnly: true}":                                                 "set config.offline",
		"existingConfig: {configMap: a, secret: b}":                                     "remove one",
		"ingress: {enabled: true, host: modules.example.com}":                           "set config.public_url",
		"{ingress: {enabled: true}, config: {public_url: https://modules.example.com}}": "set ingress.host",
		"serviceMonitor: {enabled: true}":                                               "set serviceMonitor.tokenSecret.name",
		"podDisruptionBudget: {maxUnavailable: 2}":                                      "/podDisruptionBudget/maxUnavailable",
	} {
		parsed, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatalf("%s: %v", values, err)
		}
		if _, err := render(parsed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", values, err, want)
		}
	}
}

// TestManifest: deploy/manifest.yaml has the objects of the chart with the default values.
func TestManifest(t *testing.T) {
	const head = "# modproxy for Kubernetes, rendered from the chart with its default values by: go test -C tools/chart -update\n" +
		"# docs/how-to/kubernetes.md shows how to use it.\n"
	text := []byte(head + "---\n" + strings.Join(mustRender(t, nil), "---\n"))
	if *update {
		if err := os.WriteFile(manifest, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(manifest)
	if err != nil || !bytes.Equal(was, text) {
		t.Errorf("%s differs from the chart (%v): run go test -C tools/chart -update", manifest, err)
	}
}
