package app

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
)

// pathOf returns the types of the layers that a request passes.
func pathOf(reg modproxy.Registry) string {
	var names []string
	for v := reflect.ValueOf(reg); v.IsValid(); {
		v = reflect.Indirect(v)
		names = append(names, v.Type().String())
		next := v.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, "next") })
		if !next.IsValid() || next.Kind() == reflect.Interface && next.IsNil() {
			break
		}
		if next.Kind() == reflect.Interface {
			next = next.Elem()
		}
		v = next
	}
	return strings.ReplaceAll(strings.Join(names, " "), ".Registry", "")
}

// TestLayers: the guarantees of each layer depend on the order of the layers.
func TestLayers(t *testing.T) {
	const below = "cache history ledger nested.Sources upstream.Router"
	for name, c := range map[string]struct {
		change        func(*config.Config)
		path, listing string
	}{
		"online": {
			func(*config.Config) {},
			"rewrite observe policy " + below, "policy " + below,
		},
		"with tokens": {
			func(c *config.Config) { c.Auth.Required = true },
			"auth rewrite observe policy " + below, "auth policy " + below,
		},
		"with tokens and nested sources": {
			func(c *config.Config) { c.Rewrite.Nested, c.PublicURL = true, "https://modules.example.com" },
			"auth rewrite observe policy nested " + below, "auth policy nested " + below,
		},
		"offline": {
			func(c *config.Config) { c.Offline = true },
			"rewrite observe policy cache", "policy cache",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conf := newOffline(t)
			conf.Offline = false
			c.change(conf)
			a, err := openAll(t.Context(), conf)
			must(t, err)
			defer a.Close()
			if got := pathOf(a.Registry); got != c.path {
				t.Errorf("a request passes %q, want %q", got, c.path)
			}
			if got := pathOf(a.listing); got != c.listing {
				t.Errorf("a list for the catalog passes %q, want %q", got, c.listing)
			}
		})
	}
}

// listed is a registry that lists versions.
type listed struct{ modproxy.Registry }

func (listed) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return &modproxy.Versions{}, nil
}

// TestGuard: on read-only data, versions are listed and nothing is downloaded.
func TestGuard(t *testing.T) {
	if guard(listed{}, nil) != (listed{}) {
		t.Error("a directory that can be written has a guard")
	}
	why := errors.New("read-only file system")
	g := guard(listed{}, why)
	if v, err := g.Versions(t.Context(), vpc); v == nil || err != nil {
		t.Errorf("versions: %v", err)
	}
	_, errLocation := g.Location(t.Context(), vpc.At("1.0.0"))
	_, errPackage := g.Package(t.Context(), vpc.At("1.0.0"))
	for _, err := range []error{errLocation, errPackage} {
		if full, ok := errors.AsType[*modproxy.NoSpace](err); !ok || !errors.Is(full, why) {
			t.Errorf("got %v", err)
		}
	}
}
