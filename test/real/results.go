package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// The outcomes of one version.
const (
	equal   = "equal"   // modproxy and git have the same files
	differs = "differs" // the files differ, or only git fails
	refused = "refused" // git has the version, and modproxy does not serve it
	neither = "neither" // git fails, and modproxy does not serve it; or a client fails directly
)

// A result is the outcome of one version in one way: a form, with or without a client.
type result struct {
	Repo    string `json:"repo"`
	Version string `json:"version"`
	Way     string `json:"way"`
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"`
}

// book contains the results in a file, so that another run continues after an earlier one.
type book struct {
	mu   sync.Mutex
	file *os.File
	all  map[[3]string]result
}

func openBook(path string) (*book, error) {
	b := &book{all: map[[3]string]result{}}
	if path == "" {
		return b, nil
	}
	var err error
	if b.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(b.file); ; {
		var r result
		if err := d.Decode(&r); err == io.EOF {
			return b, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		b.all[[3]string{r.Repo, r.Version, r.Way}] = r
	}
}

// outcome returns "" for a missing result.
func (b *book) outcome(r *repo, version, way string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[[3]string{r.String(), version, way}].Outcome
}

func (b *book) add(r result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[[3]string{r.Repo, r.Version, r.Way}] = r
	if r.Outcome != equal {
		fmt.Printf("%s %s, %s: %s: %s\n", r.Repo, r.Version, r.Way, r.Outcome, r.Why)
	}
	if b.file == nil {
		return nil
	}
	return json.NewEncoder(b.file).Encode(r)
}

// summary prints the results of r, and reports whether all are good.
func (b *book) summary(ctx context.Context, r *repo, form string, p *proxy) (bool, error) {
	noted, example, err := p.notes(ctx, r)
	if err != nil {
		return false, err
	}
	count := map[string]int{}
	clients := map[string]string{}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, res := range b.all {
		if res.Repo != r.String() {
			continue
		}
		if res.Way == form {
			count[res.Outcome]++
		} else if tool, ok := strings.CutPrefix(res.Way, form+" by "); ok {
			clients[tool] = res.Outcome
		}
	}
	fmt.Printf("%s, %s: %d versions, %d equal, %d differ, %d refused, %d fail with git as well; %d noted now; clients %v\n",
		r, form, len(r.versions), count[equal], count[differs], count[refused], count[neither], noted, clients)
	if example != "" {
		fmt.Printf("  such as %s\n", example)
	}
	bad := count[differs]+count[refused] > 0
	for _, outcome := range clients {
		bad = bad || outcome == differs || outcome == refused
	}
	return !bad, nil
}
