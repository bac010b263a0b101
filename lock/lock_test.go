package lock_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/lock"
)

const (
	sumA = modproxy.Sum("h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
	sumB = modproxy.Sum("h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=")
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

func TestFormat(t *testing.T) {
	other := vpc
	other.Host = "registry.example.com:8443"
	entries := []lock.Entry{{vpc.At("1.2.0"), sumB, ""}, {vpc.At("1.10.0"), sumA, "modules/a b"}, {vpc.At("1.2.0"), sumB, ""}, {other.At("1.0.0-rc.1+b5"), sumA, ""}}
	text := lock.Format(entries)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if got, want := lines[len(lines)-3:], []string{
		"registry.example.com/acme/vpc/aws 1.10.0 " + string(sumA) + " modules/a b",
		"registry.example.com/acme/vpc/aws 1.2.0 " + string(sumB),
		"registry.example.com:8443/acme/vpc/aws 1.0.0-rc.1+b5 " + string(sumA),
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	again, err := lock.Parse(text)
	if err != nil || len(again) != 3 || !bytes.Equal(lock.Format(again), text) {
		t.Errorf("read again as %v, %v", again, err)
	}
	if again, err := lock.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))); err != nil || len(again) != 3 {
		t.Errorf("with line ends of Windows: %v, %v", again, err)
	}
}

func TestParseRefuses(t *testing.T) {
	good := "registry.example.com/acme/vpc/aws 1.2.0 " + string(sumA)
	for name, text := range map[string]string{
		"two sums":     good + "\n" + strings.Replace(good, string(sumA), string(sumB), 1),
		"a conflict":   good + "\n=======\n" + good,
		"no sum":       "registry.example.com/acme/vpc/aws 1.2.0",
		"another hash": "registry.example.com/acme/vpc/aws 1.2.0 h2:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		"a short sum":  "registry.example.com/acme/vpc/aws 1.2.0 h1:47DEQpj8HBSa",
		"no host":      "acme/vpc/aws 1.2.0 " + string(sumA),
		"upper case":   "Registry.example.com/acme/vpc/aws 1.2.0 " + string(sumA),
		"a subdir":     "registry.example.com/acme/vpc/aws//x 1.2.0 " + string(sumA),
		"a v":          "registry.example.com/acme/vpc/aws v1.2.0 " + string(sumA),
		"two spaces":   strings.Replace(good, " ", "  ", 1),
		"more":         good + " # why",
	} {
		if entries, err := lock.Parse([]byte(text)); !errors.Is(err, modproxy.ErrInvalid) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%s: %v, %v; want ErrInvalid with the line", name, entries, err)
		}
	}
}

// No file causes a panic. A parsed file parses to the same entries after it is formatted.
func FuzzParse(f *testing.F) {
	f.Add(lock.Format([]lock.Entry{{vpc.At("1.2.0"), sumB, ""}, {vpc.At("1.10.0"), sumA, "modules/a"}}))
	f.Add([]byte("# nothing\n\n"))
	f.Add([]byte("bücher.example/a/b/c 1.0.0 " + string(sumA)))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := lock.Parse(text)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		formed := lock.Format(entries)
		if again, err := lock.Parse(formed); err != nil || !bytes.Equal(lock.Format(again), formed) {
			t.Fatalf("%q is read again as %v, %v", formed, again, err)
		}
	})
}
