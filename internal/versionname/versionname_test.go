package versionname_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
)

func TestName(t *testing.T) {
	module := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	provider := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "toy"}
	for text, want := range map[string]modproxy.Ref{
		`{}`: {},
		`{"module":"registry.example.com/acme/vpc/aws"}`:                                        module.At(""),
		`{"module":"registry.example.com/acme/vpc/aws","version":"1.2.0"}`:                      module.At("1.2.0"),
		`{"module":"registry.example.com/acme/toy","version":"1.2.0"}`:                          provider.At("1.2.0"),
		`{"module":"registry.example.com/acme/toy","version":"1.2.0","platform":"linux_amd64"}`: provider.At("1.2.0").ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}),
	} {
		if got, err := json.Marshal(versionname.Of(want)); err != nil || string(got) != text {
			t.Errorf("Of(%v) = %s, %v, want %s", want, got, err, text)
		}
		var n versionname.Name
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		if got, err := n.ParseOptional(); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, wrong := range []versionname.Name{
		{},
		{Module: "vpc"},
		{Module: module.String(), Version: "one"},
		{Module: module.String(), Version: "1.2.0", Platform: "linux_amd64"},
		{Module: provider.String(), Platform: "linux_amd64"},
		{Module: provider.String(), Version: "1.2.0", Platform: "linux"},
	} {
		if v, err := wrong.Parse(""); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%+v is %v, %v", wrong, v, err)
		}
	}
	damaged := versionname.Name{Module: "?", Version: "1.0.0"}
	if got := damaged.Shown() + ", " + damaged.ShownVersion(); got != "? 1.0.0, 1.0.0" {
		t.Errorf("a damaged name is shown as %q", got)
	}
}
