package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/store"
)

// removingAPI returns the URL of a proxy with removable data, and the number of removals.
func removingAPI(t *testing.T) (url string, removals func() int64) {
	var n atomic.Int64
	name := versionname.Name{Module: module, Version: "1.0.0"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			DryRun bool `json:"dry_run"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil && err != io.EOF { // a list is requested without a body
			t.Error(err)
		}
		w.Header().Set("Modproxy-Api", "1")
		out := json.NewEncoder(w)
		answer := func(item, done any) {
			_ = out.Encode(map[string]any{"item": item})
			_ = out.Encode(map[string]any{"done": done})
		}
		switch path := strings.TrimPrefix(r.URL.Path, "/-/api/"); path {
		case "packages/remove":
			answer(admin.RemovedPackage{Name: name, There: true, Size: 1}, struct{}{})
		case "packages/tidy":
			answer(admin.RemovablePackage{Name: name, Size: 1}, admin.CollectResult{Collected: store.Collected{Evicted: store.Amount{Blobs: 1, Bytes: 1}}})
		case "missing":
			answer(map[string]any{"module": name.Module, "version": name.Version}, struct{}{})
			return
		case "missing/clear":
			_ = out.Encode(map[string]any{"done": 1})
		default:
			t.Errorf("asked for %s", path)
		}
		if !in.DryRun {
			n.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, n.Load
}

// Without a terminal no verb asks: rm of all versions needs --yes, and the others work at once.
func TestRemovesWithoutTerminal(t *testing.T) {
	for _, test := range []struct {
		args    string
		code    int
		removed bool
	}{
		{"rm " + module + " 1.0.0", exitDone, true},
		{"rm " + module + " --all", exitMisuse, false},
		{"rm " + module + " --all --dry-run", exitDone, false},
		{"rm " + module + " --all --yes", exitDone, true},
		{"gc", exitDone, true},
		{"gc --dry-run", exitDone, false},
		{"missing --clear", exitDone, true},
		{"missing --clear --dry-run", exitDone, false},
		{"missing --dry-run", exitMisuse, false},
	} {
		t.Run(test.args, func(t *testing.T) {
			api, removals := removingAPI(t)
			got := command(t, []string{"MODPROXY_TOKEN=x"}, append(strings.Fields(test.args), "--server", api)...)
			if got.code != test.code || removals() > 0 != test.removed {
				t.Errorf("%+v, %d removals", got, removals())
			}
			if strings.Contains(test.args, "--dry-run") && test.code == exitDone && !strings.Contains(got.stdout, "would ") {
				t.Errorf("it does not print what would be removed: %+v", got)
			}
			if test.code == exitMisuse && strings.Contains(test.args, "--all") && !strings.Contains(got.stderr, "hint: --yes") {
				t.Errorf("no hint: %s", got.stderr)
			}
		})
	}
}
