package bundle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// Of two bundles that continue the same one, the second is not taken for a repetition of the first.
func TestImportTwoOfOneNumber(t *testing.T) {
	near, far := newSide(t), newSide(t)
	near.keep(network.At("1.0.0"), "one")
	first := near.export(nil)
	near.keep(network.At("1.1.0"), "two")
	second := near.export(near.head(first))
	near.keep(network.At("1.2.0"), "three")
	other := near.export(near.head(first))
	third := near.export(near.head(other))
	for _, b := range [][]byte{first, second} {
		if _, err := far.take(near, b); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"other": fmt.Sprintf("bundle 2 (%s): another bundle 2 (%s) ", near.head(other).ID, near.head(second).ID),
		"third": fmt.Sprintf("bundle 3 (%s): it does not continue bundle 2 (%s), which was imported: the chain has forked", near.head(third).ID, near.head(second).ID),
	} {
		b := map[string][]byte{"other": other, "third": third}[name]
		_, err := far.take(near, b)
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "export --since that") {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
	if _, err := far.take(near, near.export(near.head(second))); err != nil {
		t.Error(err)
	}
}
