package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/config"
)

// TestReloadUnderLoad: the rules are reloaded a hundred times, some with mistakes. Every request is answered under rules that
// were in a file.
func TestReloadUnderLoad(t *testing.T) {
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "modproxy.yaml"), filepath.Join(dir, "rules.yaml")
	write := func(name, text string) {
		must(t, os.WriteFile(name+".new", []byte(text), 0o600))
		must(t, os.Rename(name+".new", name))
	}
	write(file, fmt.Sprintf("listen: 127.0.0.1:0\ndata: %s\noffline: true\npolicy: {default: deny, files: [%s]}\n", filepath.Join(dir, "data"), rules))
	const both = "rules:\n- allow: registry.terraform.io/*/*/*\n- deny: '*/never/*/*'\n"
	write(rules, both)
	c, err := config.Load(file, nil, nil)
	must(t, err)
	var log bytes.Buffer
	a, err := New(t.Context(), c, Options{Log: &log})
	must(t, err)
	ctx, end := context.WithCancelCause(t.Context())
	served, reload := make(chan error), make(chan os.Signal)
	go func() { served <- a.Serve(ctx, reload) }()

	var stop atomic.Bool
	var asked atomic.Int64
	var clients sync.WaitGroup
	for module, want := range map[string]string{"never/vpc/aws": "403", "always/vpc/aws": "424", "mostly/vpc/aws": "403 424"} {
		for range 4 {
			clients.Go(func() {
				for !stop.Load() {
					answer, err := http.Get(a.URL() + "/registry.terraform.io/v1/modules/" + module + "/versions")
					if err != nil {
						t.Errorf("%s: %v", module, err)
						return
					}
					answer.Body.Close()
					if asked.Add(1); !strings.Contains(want, fmt.Sprint(answer.StatusCode)) {
						t.Errorf("%s: %s, want %s", module, answer.Status, want)
					}
				}
			})
		}
	}
	// await waits until the clients have made n requests: on a busy machine they take longer than the reloads.
	await := func(n int64) {
		for end := time.Now().Add(time.Minute); asked.Load() < n && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%d requests after a minute; want %d", asked.Load(), n)
			}
		}
	}
	// follow reloads, and returns after the reload has ended: the second signal is received only then.
	follow := func() { reload <- os.Interrupt; reload <- os.Interrupt }
	const alone = 30 // reloads during which no file is replaced: each of them is logged
	for i := range 100 {
		switch i % 3 {
		case 0:
			write(rules, both+"- deny: '*/mostly/*/*'\n")
		case 1:
			write(rules, both)
		case 2:
			write(rules, both+"- deny: nonsense\n")
		}
		if i < alone {
			await(int64(i)) // so that requests are answered meanwhile
			follow()
		} else {
			reload <- os.Interrupt // the file is replaced during the reload
		}
	}
	follow()
	await(100)
	stop.Store(true)
	clients.Wait()
	end(errors.New("terminated signal received"))
	must(t, errors.Join(<-served, a.Close()))
	if done, failed := strings.Count(log.String(), `"reloaded"`), strings.Count(log.String(), `"reload_failed"`); done < alone/3*2 || failed < alone/3 {
		t.Errorf("%d reloads, and %d that failed", done, failed)
	}
}
