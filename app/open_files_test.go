package app

import (
	"testing"

	"github.com/modproxy/modproxy/config"
)

func TestConnections(t *testing.T) {
	for _, c := range []struct {
		configured, fetches int
		limit               uint64
		want                int
	}{
		{4096, 8, 0, 4096},
		{4096, 8, 1 << 20, 4096},
		{4096, 8, 1024, 944},
		{100, 8, 1024, 100},
		{4096, 8, 64, 16},
		{4096, 1000, 1024, 256},
		{4096, 8, 1, 1},
	} {
		config := &config.Config{}
		config.Limits.Connections, config.Fetch.AtOnce = c.configured, c.fetches
		if is := connections(config, c.limit); is != c.want {
			t.Errorf("%d configured, %d fetches, %d files: %d connections, want %d", c.configured, c.fetches, c.limit, is, c.want)
		}
	}
}
