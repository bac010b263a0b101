package cachetest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// trimVersions: what was asked for longest ago goes first, and last what packages
// are kept of.
func trimVersions(t *testing.T, handles []cache.Index) {
	a, b := handles[0], handles[1]
	const each = 100 << 10
	module := func(i int) modproxy.Module {
		m := vpc
		m.Name = fmt.Sprintf("m%d", i)
		return m
	}
	// The oldest one has a package.
	must(t, a.PutPackage(module(0), "1.0.0", record("h1:a")))
	for i := range 10 {
		rec := cache.VersionsRecord{Document: make([]byte, each), Time: when, Asked: when.Add(time.Duration(i) * time.Hour)}
		must(t, a.PutVersions(module(i), rec))
	}
	for _, step := range []struct {
		limit int64
		stay  []int
	}{
		{limit: 11 * each, stay: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{limit: 8 * each, stay: []int{0, 3, 4, 5, 6, 7, 8, 9}},
		{limit: 3 * each, stay: []int{0, 8, 9}},
		{limit: each * 3 / 2, stay: []int{0}},
		{limit: each / 2},
	} {
		before := len(kept(t, b, module))
		// What is kept beside a document may count as well.
		trimmed, err := b.TrimVersions(step.limit + int64(before)<<11)
		must(t, err)
		stay := kept(t, a, module)
		if d := cmp.Diff(step.stay, stay); d != "" {
			t.Errorf("within %d bytes: %s", step.limit, d)
		}
		if gone := before - len(stay); trimmed.Documents != gone || trimmed.Bytes < int64(gone)*each {
			t.Errorf("within %d bytes: %+v; %d are gone", step.limit, trimmed, gone)
		}
	}
	if _, err := a.Package(module(0), "1.0.0"); err != nil {
		t.Errorf("the package record: %v", err)
	}
}

// kept are the modules of which there is a versions record.
func kept(t *testing.T, x cache.Index, module func(int) modproxy.Module) (all []int) {
	for i := range 10 {
		switch _, err := x.Versions(module(i)); {
		case err == nil:
			all = append(all, i)
		case !errors.Is(err, fs.ErrNotExist):
			t.Error(err)
		}
	}
	return slices.Clip(all)
}
