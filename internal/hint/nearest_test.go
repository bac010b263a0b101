package hint

import "testing"

func TestNearest(t *testing.T) {
	keys := []string{"listen", "public_url", "data", "tls", "upstreams", "log", "cache", "fetch"}
	for in, want := range map[string]string{
		"listen": "listen", "lisen": "listen", "lsiten": "listen", "public-url": "public_url", "upstream": "upstreams", "Cache": "cache",
		"cahce": "cache", "lgo": "log", "x": "", "": "", "frobnicate": "", "datum": "", "listeners": "listen", "tl": "tls",
	} {
		if got := Nearest(in, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}
