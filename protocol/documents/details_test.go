package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// recorded returns a registry's recorded answer; see the README in its directory.
func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "catalog", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRecordedDetails(t *testing.T) {
	const host = "registry.terraform.io"
	ec := modproxy.Address{Host: host, Namespace: "puppetlabs", Name: "deployment", System: "ec"}.At("0.0.8")
	label := modproxy.Address{Host: host, Namespace: "cloudposse", Name: "label", System: "null"}.At("0.25.0")
	consul := modproxy.Address{Host: host, Namespace: "hashicorp", Name: "consul", System: "aws"}.At("0.4.0")
	opened := modproxy.Address{Host: "registry.opentofu.org", Namespace: "terraform-aws-modules", Name: "vpc", System: "aws"}.At("5.1.0")
	input := func(name, value string) modproxy.Input {
		return modproxy.Input{Name: name, Type: "string", Description: "says what " + name + " is", Default: value}
	}
	output := func(name string) modproxy.Output {
		return modproxy.Output{Name: name, Description: "says what " + name + " is"}
	}
	for _, c := range []struct {
		file string
		read func(*reading, []byte, modproxy.Ref) (*modproxy.Details, error)
		want modproxy.Details
	}{
		{"v1-ec.json", (*reading).details, modproxy.Details{
			Summary: modproxy.Summary{
				Ref: ec, Owner: "mattkirby", Logo: "https://registry.terraform.io/images/providers/generic.svg?2",
				Source: "https://github.com/puppetlabs/terraform-ec-deployment", Tag: "v0.0.8",
				Published: time.Date(2021, 8, 5, 0, 26, 33, 501756000, time.UTC), Downloads: 3059237,
			},
			Root: withLists(modproxy.Part{
				Name: "deployment", Readme: "# A module\n\nIts text.\n",
				Inputs: []modproxy.Input{
					input("autoscale", `"true"`), input("ec_stack_version", `""`), input("name", `"ecproject"`), input("traffic_filter_sourceip", `""`),
					input("ec_region", `"gcp-us-west1"`), input("deployment_templateid", `"gcp-io-optimized"`),
				},
				Outputs: []modproxy.Output{
					output("elasticsearch_password"), output("deployment_id"), output("elasticsearch_version"), output("elasticsearch_cloud_id"),
					output("elasticsearch_https_endpoint"), output("elasticsearch_username"),
				},
				Providers: []modproxy.PartNeed{{Name: "ec", Namespace: "elastic", Source: "elastic/ec", Version: "0.2.1"}},
				Resources: []modproxy.PartManaged{
					{Name: "ecproject", Type: "ec_deployment"}, {Name: "gcp_vpc_nat", Type: "ec_deployment_traffic_filter"},
					{Name: "ec_tf_association", Type: "ec_deployment_traffic_filter_association"},
				},
			}),
			Submodules: []modproxy.Part{withLists(modproxy.Part{
				Path: "modules/ec", Inputs: []modproxy.Input{input("sub_autoscale", `"true"`), input("sub_ec_stack_version", `""`)},
				Outputs: []modproxy.Output{output("sub_elasticsearch_password"), output("sub_deployment_id")},
			})},
			Examples: []modproxy.Part{},
		}},
		{"v1-label.json", (*reading).details, modproxy.Details{
			Summary: modproxy.Summary{
				Ref: label, Owner: "osterman", Logo: "https://registry.terraform.io/images/providers/generic.svg?2",
				Description: "names things", Source: "https://github.com/cloudposse/terraform-null-label", Tag: "0.25.0",
				Published: time.Date(2021, 8, 25, 17, 47, 4, 39843000, time.UTC), Downloads: 52863192,
			},
			Root: withLists(modproxy.Part{
				Name: "label",
				Inputs: []modproxy.Input{
					{Name: "environment", Type: "string", Required: true}, {Name: "label_order", Type: "list(string)", Required: true},
					{Name: "descriptor_formats", Type: "any", Default: "{}"},
				},
				Outputs: []modproxy.Output{{Name: "id"}},
			}),
			Submodules: []modproxy.Part{}, Examples: []modproxy.Part{}, Systems: []string{"terraform"},
		}},
		// The document from 2018 has neither types nor required inputs.
		{"v1-consul.json", (*reading).details, modproxy.Details{
			Summary: modproxy.Summary{
				Ref: consul, Owner: "gruntwork-team", Description: "runs Consul",
				Source: "https://github.com/hashicorp/terraform-aws-consul", Published: time.Date(2018, 9, 20, 11, 25, 22, 957584000, time.UTC),
				Downloads: 4484, Verified: true,
			},
			Root: withLists(modproxy.Part{
				Name: "consul", Readme: "# Consul\n",
				Inputs: []modproxy.Input{
					{Name: "num_servers", Type: "any", Description: "how many", Default: "3"}, {Name: "spot_price", Type: "any", Default: `""`},
				},
				Outputs: []modproxy.Output{{Name: "asg_name_servers"}},
			}),
			Submodules: []modproxy.Part{withLists(modproxy.Part{
				Path: "modules/consul-iam-policies", Name: "consul-iam-policies", Inputs: []modproxy.Input{{Name: "iam_role_id", Type: "any"}},
				Resources: []modproxy.PartManaged{{Name: "auto_discover_cluster", Type: "aws_iam_role_policy"}},
			})},
			Examples: []modproxy.Part{withLists(modproxy.Part{
				Path: "examples/example-with-encryption", Name: "example-with-encryption",
				Inputs:  []modproxy.Input{{Name: "num_servers", Type: "any", Default: "3"}},
				Outputs: []modproxy.Output{{Name: "num_clients"}},
			})},
			Systems: []string{"azurerm", "google"},
		}},
		{"docs-version.json", (*reading).docsDetails, modproxy.Details{
			Summary: modproxy.Summary{
				Ref: opened, Source: "https://github.com/terraform-aws-modules/terraform-aws-vpc", Tag: "v5.1.0",
				Published: time.Date(2023, 7, 15, 9, 30, 12, 0, time.UTC),
			},
			Root: withLists(modproxy.Part{
				Name: "vpc",
				Inputs: []modproxy.Input{
					{Name: "azs", Type: "list of string", Default: "[]"}, {Name: "cidr", Type: "string", Required: true},
					{Name: "create", Type: "bool", Default: "true"}, {Name: "name", Type: "string", Default: `""`},
					{Name: "owner", Type: "string", Default: "null"},
				},
				Outputs:   []modproxy.Output{{Name: "arn"}, {Name: "vpc_id", Description: "the ID"}},
				Calls:     []modproxy.PartCall{{Name: "label", Source: "cloudposse/label/null", Version: "~> 0.25"}},
				Providers: []modproxy.PartNeed{{Name: "aws", Namespace: "hashicorp", Source: "hashicorp/aws", Version: ">= 5.0"}},
				Resources: []modproxy.PartManaged{{Name: "this", Type: "aws_vpc"}},
			}),
			Submodules: []modproxy.Part{withLists(modproxy.Part{
				Path: "modules/vpc-endpoints", Name: "vpc-endpoints", Inputs: []modproxy.Input{{Name: "vpc_id", Type: "string", Default: "null"}},
			})},
			Examples: []modproxy.Part{withLists(modproxy.Part{Path: "examples/simple", Name: "simple"})},
		}},
	} {
		r := readingOf(t, "https://registry.terraform.io/v1/modules/x")
		got, err := c.read(r, []byte(recorded(t, c.file)), c.want.Ref)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		} else if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s: %s", c.file, diff)
		}
	}
}

func TestRecordedHistories(t *testing.T) {
	got, err := readingOf(t, "https://registry.terraform.io/v2/modules/x").history([]byte(recorded(t, "v2-vpc.json")), vpc)
	want := &modproxy.History{
		Module: vpc, Logo: "https://registry.terraform.io/images/providers/aws.png",
		Source: "https://github.com/terraform-aws-modules/terraform-aws-vpc", Downloads: 18440513, Verified: true,
		Versions: []modproxy.DatedVersion{{
			Version: "2.0.0", Published: time.Date(2020, 2, 6, 6, 26, 8, 0, time.UTC), Description: "makes VPC resources", Tag: "v2.0.0", Downloads: 260030,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("v2: %v %s", err, diff)
	}
	got, err = readingOf(t, "https://api.opentofu.org/").docsHistory([]byte(recorded(t, "docs-index.json")), vpc)
	want = &modproxy.History{Module: vpc, Versions: []modproxy.DatedVersion{
		{Version: "5.0.0", Published: time.Date(2023, 5, 30, 20, 0, 0, 0, time.UTC)},
		{Version: "5.1.0", Published: time.Date(2023, 7, 15, 9, 30, 12, 0, time.UTC)},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("docs: %v %s", err, diff)
	}
	counts, err := ParseDownloads([]byte(recorded(t, "v1-downloads.json")))
	if diff := cmp.Diff(&modproxy.Downloads{Week: 3, Month: 14, Year: 159, Total: 2653}, counts); diff != "" || err != nil {
		t.Errorf("downloads: %v %s", err, diff)
	}
}

// A member of an unexpected type counts as missing, and harmful content is omitted.
func TestOddDetails(t *testing.T) {
	long := strings.Repeat("x", clean.MaxLine+1)
	quote := func(s string) string { text, _ := json.Marshal(s); return string(text) }
	input := func(members string) string { return `{"root": {"inputs": [{"name": "a", ` + members + `}]}}` }
	for _, c := range []struct{ document, got, want string }{
		{input(`"default": "\"x\""`), "default", `"x"`},
		{input(`"default": 3`), "default", `3`},
		{input(`"default": 1e400`), "default", `1e400`},
		{input(`"default": {"a": [ 1, null ]}`), "default", `{"a":[1,null]}`},
		{input(`"default": null`), "default", ``},
		{input(`"default": ""`), "default", ``},
		{input(`"default": "null"`), "default", `null`},
		{input(`"default": "gp2"`), "default", `"gp2"`}, // not JSON: the text itself is the value
		{input(`"default": "\"\u001b[2J\""`), "default", `"[2J"`},
		{input(`"type": "list(string)"`), "type", "list(string)"},
		{input(`"type": ["x"]`), "type", "any"},
		{input(`"description": "a\u0000\u001b[31mb\nc\u009b"`), "text", "a[31mb\nc"},
		{input(`"required": "yes"`), "required", "false"},
		{input(`"required": true`), "required", "true"},
		{`{"root": {"inputs": [1, null, "x", [], {}, {"name": 1}, {"name": "a\u0007"}, {"name": ` + quote(long) + `}, {"name": "b"}]}}`, "names", "b"},
		{`{"root": {"inputs": {"name": "a"}}}`, "names", ""},
		{`{"root": [1]}`, "names", ""},
		{`{"source": "git::ssh://x.example/y"}`, "source", ""},
		{`{"source": "javascript:alert(1)"}`, "source", ""},
		{`{"source": "https://user:pw@x.example/y"}`, "source", ""},
		{`{"source": "/y"}`, "source", ""},
		{`{"source": "https://x.example/\u0000"}`, "source", ""},
		{`{"source": "https://x.example/<b>"}`, "source", "https://x.example/%3Cb%3E"},
		{`{"source": ` + quote("https://x.example/"+long) + `}`, "source", ""},
		{`{"source": 1, "owner": "me"}`, "owner", "me"},
		{`{"owner": "me\nyou"}`, "owner", ""},
		{`{"provider_logo_url": "/a.svg?2"}`, "logo", "https://registry.example.com/a.svg?2"},
		{`{"provider_logo_url": "data:image/svg+xml,x"}`, "logo", ""},
		{`{"provider_logo_url": "//cdn.example/a.svg"}`, "logo", "https://cdn.example/a.svg"},
		{`{"published_at": 1}`, "date", ""},
		{`{"published_at": "yesterday"}`, "date", ""},
		{`{"published_at": "9999-12-31T23:59:59-23:59"}`, "date", ""},
		{`{"published_at": "2021-08-05T00:26:33.501756+02:00"}`, "date", "2021-08-04T22:26:33.501756Z"},
		{`{"downloads": -1}`, "downloads", "0"},
		{`{"downloads": 1.5}`, "downloads", "0"},
		{`{"downloads": 99999999999999999999}`, "downloads", "0"},
		{`{"downloads": "7"}`, "downloads", "0"},
		{`{"downloads": 7}`, "downloads", "7"},
		{`{"submodules": [{"path": "../x"}, {"path": "/x"}, {"path": "."}, {"path": ""}, {"path": "a\\b"}, {"path": "a\u0000"}, {}, 1, {"path": "a/b"}]}`, "paths", "a/b"},
		{`{"providers": ["google", "aws", "azurerm", "google", "AWS", "../x", "", 1, null, ["x"]]}`, "systems", "azurerm google"},
		{`{"providers": "google"}`, "systems", ""},
		{`{"deprecation": "yes"}`, "deprecation", "-"},
		{`{"deprecation": null}`, "deprecation", "-"},
		{`{"deprecation": {"reason": "old", "link": "ftp://x.example/"}}`, "deprecation", "old "},
		{`{"deprecation": {"reason": "old", "link": "https://x.example/"}}`, "deprecation", "old https://x.example/"},
	} {
		document := strings.Replace(c.document, "{", `{"version": "v1.0", `, 1)
		d, err := readingOf(t, "https://registry.example.com/v1/modules/acme/vpc/aws/1.0.0").details([]byte(document), vpc.At("1.0.0"))
		if err != nil {
			t.Errorf("%s: %v", c.document, err)
			continue
		}
		got := map[string]string{"source": d.Source, "owner": d.Owner, "logo": d.Logo, "downloads": fmt.Sprint(d.Downloads), "deprecation": "-", "systems": strings.Join(d.Systems, " ")}
		if !d.Published.IsZero() {
			got["date"] = d.Published.Format(time.RFC3339Nano)
		}
		if d.Deprecation != nil {
			got["deprecation"] = d.Deprecation.Reason + " " + d.Deprecation.Link
		}
		for _, in := range d.Root.Inputs {
			got["names"] += in.Name
			got["default"], got["type"], got["text"], got["required"] = in.Default, in.Type, in.Description, fmt.Sprint(in.Required)
		}
		for _, p := range d.Submodules {
			got["paths"] += p.Path
		}
		if got[c.got] != c.want {
			t.Errorf("%s: %s is %q; want %q", c.document, c.got, got[c.got], c.want)
		}
	}
	for document, want := range map[string]error{
		``: modproxy.ErrInvalid, `[]`: modproxy.ErrInvalid, `null`: modproxy.ErrInvalid, `<html>`: modproxy.ErrInvalid, `{"version": "1.0.0"`: modproxy.ErrInvalid,
		`{}`: modproxy.ErrNotFound, `{"version": 1}`: modproxy.ErrNotFound, `{"version": "1.0.1"}`: modproxy.ErrNotFound, `{"version": "1.0.0+x"}`: modproxy.ErrNotFound, `{"version": "v1.0"}`: nil,
		`{"version": "1.0.0", "root": {"inputs": [` + strings.Repeat("1,", maxElements) + `1]}}`:                                           modproxy.ErrInvalid,
		`{"version": "1.0.0", "examples": [` + strings.Repeat(`{"path":"x","outputs":[1,1,1,1,1,1,1]},`, maxElements/8) + `{"path":"x"}]}`: modproxy.ErrInvalid,
	} {
		if _, err := readingOf(t, "https://registry.example.com/").details([]byte(document), vpc.At("1.0.0")); !errors.Is(err, want) {
			t.Errorf("%.80s: %v; want %v", document, err, want)
		}
	}
}

func TestDownloadsOfNothing(t *testing.T) {
	for document, want := range map[string]error{
		``: modproxy.ErrInvalid, `[]`: modproxy.ErrInvalid, `{}`: modproxy.ErrNotFound, `{"data": []}`: modproxy.ErrNotFound,
		`{"data": {"attributes": 1}}`: modproxy.ErrNotFound, `{"data": {"attributes": {"week": -1, "total": "x"}}}`: nil,
	} {
		d, err := ParseDownloads([]byte(document))
		if !errors.Is(err, want) || err == nil && !cmp.Equal(*d, modproxy.Downloads{}) {
			t.Errorf("%s: %+v, %v; want %v", document, d, err, want)
		}
	}
}

func FuzzDetails(f *testing.F) {
	for _, name := range []string{"v1-ec.json", "v1-label.json", "v1-consul.json"} {
		f.Add([]byte(strings.Replace(recorded(f, name), `"version": "0.`, `"version": "1.0.0", "was": "`, 1)), false)
	}
	f.Add([]byte(strings.Replace(recorded(f, "docs-version.json"), "v5.1.0", "v1.0.0", 1)), true)
	f.Add([]byte(`{"version": "1.0.0", "providers": ["b", "a"], "root": {"inputs": [{"name": "a", "default": {"a": "\u001b"}}]}}`), false)
	f.Fuzz(func(t *testing.T, document []byte, docs bool) {
		parse := (*reading).details
		if docs {
			parse = (*reading).docsDetails
		}
		d, err := parse(readingOf(t, "https://registry.example.com/v1/modules/acme/vpc/aws/1.0.0"), document, vpc.At("1.0.0"))
		if err != nil {
			return
		}
		isSummary(t, d.Summary)
		isClean(t, d)
		if d.Deprecation != nil {
			isWeb(t, d.Deprecation.Link)
		}
		if d.Root.Path != "" || d.Ref != vpc.At("1.0.0") {
			t.Errorf("it describes %v %q", d.Ref, d.Root.Path)
		}
		if slices.Contains(d.Systems, vpc.System) || !slices.IsSorted(d.Systems) || len(d.Systems) > maxSystems {
			t.Errorf("systems %q", d.Systems)
		}
		for _, p := range append(append([]modproxy.Part{d.Root}, d.Submodules...), d.Examples...) {
			if p.Path != "" && !fs.ValidPath(p.Path) {
				t.Errorf("path %q", p.Path)
			}
			for _, in := range p.Inputs {
				if in.Name == "" || in.Type == "" || in.Default != "" && !json.Valid([]byte(in.Default)) {
					t.Errorf("%+v", in)
				}
			}
			if p.Inputs == nil || p.Outputs == nil || p.Calls == nil || p.Providers == nil || p.Resources == nil {
				t.Errorf("%+v has lists that are null in JSON", p)
			}
		}
	})
}

func FuzzDownloads(f *testing.F) {
	f.Add([]byte(recorded(f, "v1-downloads.json")))
	f.Fuzz(func(t *testing.T, document []byte) {
		if d, err := ParseDownloads(document); err == nil {
			isCount(t, d.Week, d.Month, d.Year, d.Total)
		}
	})
}
