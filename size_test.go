package modproxy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
)

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 50 << 30: "50.0GiB", 3 << 40: "3.0TiB", 1 << 60: "1048576.0TiB"} {
		if got := modproxy.SizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
