package modproxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// The time to parse a versions document, relative to its size.
func BenchmarkParseVersions(b *testing.B) {
	entry := `{"version":"1.%d.0","root":{"providers":[{"name":"aws","namespace":"hashicorp","source":"hashicorp/aws","version":">= 5.0"}],"dependencies":[]},"submodules":[]}`
	for _, n := range []int{10, 200, 40_000} {
		var entries []string
		for i := range n {
			entries = append(entries, fmt.Sprintf(entry, i))
		}
		document := []byte(`{"modules":[{"versions":[` + strings.Join(entries, ",") + `]}]}`)
		b.Run(fmt.Sprintf("%dKiB", len(document)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := modproxy.ParseVersions(document); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
