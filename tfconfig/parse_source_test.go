package tfconfig_test

import (
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

func TestParseLocalSource(t *testing.T) {
	for source, want := range map[string]string{
		"./x": "a/x", "../x": "x", "../../x": "../x", "./": "a", "./..": ".", `.\x\y`: "a/x/y",
		"x": "", "acme/net/aws": "", "/x": "", "": "", "...": "", "file:./x": "",
	} {
		if got, ok := tfconfig.ParseLocalSource("a", source); got != want || ok != (want != "") {
			t.Errorf("ParseLocalSource(a, %q) = %q, %v; want %q", source, got, ok, want)
		}
	}
}

func TestParseRegistrySource(t *testing.T) {
	const host = "registry.terraform.io"
	for source, want := range map[string]modproxy.Address{
		"acme/net/aws":                        {Host: host, Namespace: "acme", Name: "net", System: "aws"},
		"registry.acme.example/acme/net/aws":  {Host: "registry.acme.example", Namespace: "acme", Name: "net", System: "aws"},
		"Registry.acme.example/acme/net/aws":  {Host: "registry.acme.example", Namespace: "acme", Name: "net", System: "aws"},
		"127.0.0.1:8080/acme/net/aws":         {Host: "127.0.0.1:8080", Namespace: "acme", Name: "net", System: "aws"},
		"localhost/acme/net/aws":              {},
		"github.com/acme/net/aws":             {},
		"github.com/acme/net":                 {},
		"bitbucket.org/acme/net/aws":          {},
		"acme/net/aws//..":                    {},
		"acme/net/aws//../x":                  {},
		"acme/net/AWS":                        {},
		"acme/net/aws?ref=v1":                 {},
		"git::https://example.com/net.git":    {},
		"https://example.com/acme/net/aws":    {},
		"git@github.com:acme/net.git":         {},
		"./acme/net/aws":                      {},
		"../net/aws":                          {},
		"s3::https://s3.example.com/a/b.zip":  {},
		"registry.example.com/acme/net/aws/x": {},
		"":                                    {},
	} {
		if got, subdir, ok := tfconfig.ParseRegistrySource(source, host); ok != (want != modproxy.Address{}) || ok && (got != want || subdir != ".") {
			t.Errorf("ParseRegistrySource(%q) = %v, %q, %v; want %v", source, got, subdir, ok, want)
		}
	}
	for source, want := range map[string]string{"acme/net/aws//x/y": "x/y", "acme/net/aws//": ".", "acme/net/aws//./x": "x"} {
		if _, subdir, ok := tfconfig.ParseRegistrySource(source, host); subdir != want || !ok {
			t.Errorf("ParseRegistrySource(%q) = %q, %v; want %q", source, subdir, ok, want)
		}
	}
}
