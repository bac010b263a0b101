package tfconfig_test

import (
	"archive/tar"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/tfconfig"
)

// The range of a source covers exactly its expression, in every form that clients accept as a literal.
func TestSources(t *testing.T) {
	files := map[string]string{
		"main.tf": "\ufeffmodule \"a\" {\n  source = \"git::https://a\" # ä\n}\n" +
			"module \"b\" { source = ((\"https://\\u0062\")) }\nmodule \"c\" {\n  source = <<-EOT\n  https://c\n  EOT\n}\n" +
			"module \"d\" { source = \"https://${local.d}\" }\nmodule \"e\" { source = upper(\"e\") }\nmodule \"f\" {}\n" +
			"module \"g\" { source = true ? \"https://g\" : \"\" }\nresource \"x\" \"y\" { source = \"https://r\" }\n",
		"made/main.tf": "locals {\n  host = \"https://git.example\"\n  url = \"git::${local.host}/made.git\"\n  late = null_resource.x.id\n  of = var.v\n}\n" +
			"variable \"v\" {\n  default = \"v\"\n  const = true\n}\nmodule \"a\" { source = local.url }\n" +
			"module \"b\" { source = \"${local.url}?ref=${var.v}\" }\nmodule \"c\" { source = local.late }\nmodule \"d\" { source = \"https://${local.of}\" }\n" +
			"module \"e\" { source = \"${path.module}/x\" }\n",
		"made/both.tf":             "locals { one = \"https://tf\" }\n",
		"made/both.tofu":           "locals { one = \"https://tofu\" }\n",
		"made/one.tf":              "module \"f\" { source = local.one }\n",
		"x_override.tf":            `module "a" { source = "https://override" }`,
		"x.tofu":                   `module "t" { source = "./examples/called" }`,
		"j.tf.json":                `{"module": {"j": [{"source": "git::https://j", "_": {"source": "no"}}], "k": {"source":"https://${var.k}"}}}`,
		"tests/a.tf":               `module "no" { source = "https://no" }`,
		"a.tftest.hcl":             `run "x" { module { source = "https://no" } }`,
		"broken/main.tf":           `module "a" { source = "https://no" `,
		"examples/called/main.tf":  `module "c" { source = "../shelf" }`,
		"examples/shelf/main.tf":   `module "s" { source = "https://shelf" }`,
		"examples/other/main.tf":   `module "no" { source = "https://no" }`,
		"examples/wanted/main.tf":  `module "w" { source = "https://wanted" }`,
		".github/main.tf":          `module "no" { source = "https://no" }`,
		"modules/examples.tf":      `module "m" { source = "https://m" }`,
		"modules/deep/er/x.tf":     `module "d" { source = "acme/network/aws" }`,
		"modules/left/.#x.tf":      `module "no" { source = "https://no" }`,
		"modules/left/README.json": `{"module": {"no": {"source": "https://no"}}}`,
	}
	var entries []tar.Header
	for name, text := range files {
		entries = append(entries, file(name, text))
	}
	r := tfconfig.NewReader(nil, 0)
	got, err := r.Read(t.Context(), packed(t, entries...), tfconfig.Options{Sources: true, Also: []string{"examples/wanted"}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range got.Sources {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %q %s %s", s.Place(), files[s.File][s.Start:s.End], strings.TrimSpace(s.Source), s.Dynamic)))
	}
	want := []string{
		`examples/called/main.tf:1 "\"../shelf\"" ../shelf`,
		`examples/shelf/main.tf:1 "\"https://shelf\"" https://shelf`,
		`examples/wanted/main.tf:1 "\"https://wanted\"" https://wanted`,
		`j.tf.json:1 "\"git::https://j\"" git::https://j`,
		`j.tf.json:1 "\"https://${var.k}\""  refers to var.k, which is not declared`,
		`made/main.tf:11 "local.url" git::https://git.example/made.git`,
		`made/main.tf:12 "\"${local.url}?ref=${var.v}\""  depends on a variable`,
		`made/main.tf:13 "local.late"  refers to local.late, which refers to null_resource.x, which is not known before a plan`,
		`made/main.tf:14 "\"https://${local.of}\""  depends on a variable`,
		`made/main.tf:15 "\"${path.module}/x\""  refers to path.module, which is not known before a plan`,
		`made/one.tf:1 "local.one"  differs between Terraform and OpenTofu`,
		`main.tf:2 "\"git::https://a\"" git::https://a`,
		`main.tf:4 "((\"https://\\u0062\"))" https://b`,
		`main.tf:6 "<<-EOT\n  https://c\n  EOT" https://c`,
		`main.tf:10 "\"https://${local.d}\""  refers to local.d, which is not declared`,
		`main.tf:11 "upper(\"e\")" E`,
		`main.tf:13 "true ? \"https://g\" : \"\"" https://g`,
		`modules/deep/er/x.tf:1 "\"acme/network/aws\"" acme/network/aws`,
		`modules/examples.tf:1 "\"https://m\"" https://m`,
		`x.tofu:1 "\"./examples/called\"" ./examples/called`,
		`x_override.tf:1 "\"https://override\"" https://override`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(got.Problems) != 1 || got.Problems[0].File != "broken/main.tf" {
		t.Errorf("problems: %v", got.Problems)
	}
}

// A file that is too large is an error, because clients may read it.
func TestSourcesTooLarge(t *testing.T) {
	r := tfconfig.NewReader(nil, 0)
	_, err := r.Read(t.Context(), packed(t, file("m/big.tf", strings.Repeat("#\n", tfconfig.MaxFile))), tfconfig.Options{Sources: true})
	if err == nil || !strings.Contains(err.Error(), "m/big.tf: is larger than the 512 KiB") {
		t.Errorf("Read = %v", err)
	}
	_, err = r.Read(t.Context(), packed(t, file("tests/big.tf", strings.Repeat("#\n", tfconfig.MaxFile))), tfconfig.Options{Sources: true})
	if err != nil {
		t.Errorf("Read = %v", err)
	}
}
