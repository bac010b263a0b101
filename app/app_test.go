package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/datadir"
)

func newOffline(t *testing.T) *config.Config {
	t.Helper()
	c := config.Default()
	c.Listen, c.Data, c.Offline = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), true
	return c
}

// TestApp: New claims the data directory, Serve answers until its context ends, and after Close the directory can be claimed
// again.
func TestApp(t *testing.T) {
	c := newOffline(t)
	var log bytes.Buffer
	a, err := New(t.Context(), c, Options{Version: "v1", Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c, Options{Log: io.Discard}); !errors.Is(err, datadir.ErrClaimed) {
		t.Errorf("the directory was opened twice: %v", err)
	}
	if a.others != nil || a.Cache.Next != nil || a.recheck.Registry != nil {
		t.Error("offline there is somebody to ask")
	}
	ctx, end := context.WithCancelCause(t.Context())
	served := make(chan error)
	reload := make(chan os.Signal)
	go func() { served <- a.Serve(ctx, reload) }()
	get := func(path string) (int, error) {
		answer, err := http.Get(a.URL() + path)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	for path, want := range map[string]int{
		"/-/readyz":                             200,
		"/.well-known/terraform.json":           200,
		"/v1/modules/acme/network/aws/versions": 424, // offline, and not cached
	} {
		if got, err := get(path); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", path, got, err, want)
		}
	}
	reload <- os.Interrupt
	reload <- os.Interrupt // received after the first reload has ended
	end(errors.New("terminated signal received"))
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := get("/-/readyz"); err == nil {
		t.Error("it listens after the end")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"message":"started","version":"v1"`, `"message":"reloaded"`, `"message":"stopping","signal":"terminated"`, `"message":"stopped"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log\n%s", want, log.String())
		}
	}
	again, err := New(t.Context(), c, Options{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewFails: after a failed start, the data directory is not claimed.
func TestNewFails(t *testing.T) {
	taken := newOffline(t)
	a, err := New(t.Context(), taken, Options{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for name, change := range map[string]func(c *config.Config){
		"address in use": func(c *config.Config) { c.Listen = strings.TrimPrefix(a.URL(), "http://") },
		"no certificate": func(c *config.Config) { c.TLS.CertFile, c.TLS.KeyFile = "/nowhere", "/nowhere" },
		"authorities":    func(c *config.Config) { c.Offline, c.Egress.CAFile = false, "/nowhere" },
		"data is no directory": func(c *config.Config) {
			if err := os.WriteFile(c.Data, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		c := newOffline(t)
		change(c)
		b, err := New(t.Context(), c, Options{Log: io.Discard})
		if err == nil {
			t.Errorf("%s: it started", name)
			b.Close()
			continue
		}
		if claim, err := datadir.NewClaim(c.Data); err == nil {
			claim.Close()
		} else if name != "data is no directory" {
			t.Errorf("%s: the data directory is not free: %v", name, err)
		}
	}
}
