package registrytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// Memory is a [modproxy.Registry] with the modules of a fixture, for use as the Next of a tested layer. It contains the
// versions whose files are in the fixture. It is safe for concurrent use.
type Memory struct {
	// Before, if not nil, is called before every answer. Its error is the answer. It is set before the first request.
	Before func(ctx context.Context, op string, m modproxy.Address, version string) error

	mu      sync.Mutex
	modules map[modproxy.Address]map[string]stored // by canonical version
	calls   map[string]int
}

type stored struct {
	spelling string
	data     []byte
	digest   modproxy.Digest
	sum      modproxy.Sum
}

// NewMemory packs the modules of a fixture, as modules of the registry host.
func NewMemory(host string, fixture *txtar.Archive) (*Memory, error) {
	m := &Memory{calls: map[string]int{}}
	return m, m.Load(host, fixture)
}

// Load replaces the modules.
func (m *Memory) Load(host string, fixture *txtar.Archive) error {
	files, err := fromArchive(fixture)
	if err != nil {
		return err
	}
	c, err := readContent(files)
	if err != nil {
		return err
	}
	modules := map[modproxy.Address]map[string]stored{}
	for address, versions := range c.modules {
		parts := strings.Split(address, "/")
		module := modproxy.Address{Host: host, Namespace: parts[0], Name: parts[1], System: parts[2]}
		modules[module] = map[string]stored{}
		for spelling := range versions {
			version, err := modproxy.CanonicalVersion(spelling)
			if err != nil {
				return err
			}
			if modules[module][version], err = packFiles(spelling, c.archives[packageName(address, spelling)]); err != nil {
				return fmt.Errorf("fixture: %s %s: %w", address, spelling, err)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.modules = modules
	return nil
}

func packFiles(spelling string, files []file) (stored, error) {
	dir, err := os.MkdirTemp("", "registrytest-")
	if err != nil {
		return stored{}, err
	}
	defer os.RemoveAll(dir)
	b, err := pack.New(dir, pack.Limits{})
	if err != nil {
		return stored{}, err
	}
	defer b.Close()
	for _, f := range files {
		if f.link != "" {
			err = b.Link(f.name, f.link)
		} else {
			err = b.File(f.name, f.exec, bytes.NewReader(f.data))
		}
		if err != nil {
			return stored{}, err
		}
	}
	var out bytes.Buffer
	packed, err := b.Pack(&out, "")
	if err != nil {
		return stored{}, err
	}
	return stored{spelling, out.Bytes(), sha256.Sum256(out.Bytes()), packed.Sum}, nil
}

// Calls returns the number of requests of one kind: "versions", "location" or "package".
func (m *Memory) Calls(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

// find counts a request and returns the versions of its module.
func (m *Memory) find(ctx context.Context, op string, module modproxy.Address, version string) (map[string]stored, error) {
	m.mu.Lock()
	m.calls[op]++
	versions := m.modules[module]
	m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(ctx, op, module, version); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	missing := len(versions) == 0
	if op != "versions" && !missing {
		_, ok := versions[version]
		missing = !ok
	}
	if missing {
		return nil, modproxy.Wrap(op, module.At(version), modproxy.ErrNotFound)
	}
	return versions, nil
}

// Versions implements [modproxy.Registry].
func (m *Memory) Versions(ctx context.Context, module modproxy.Address) (*modproxy.Versions, error) {
	versions, err := m.find(ctx, "versions", module, "")
	if err != nil {
		return nil, err
	}
	list := []map[string]string{}
	for _, v := range slices.SortedFunc(maps.Keys(versions), inOrder) {
		list = append(list, map[string]string{"version": versions[v].spelling})
	}
	document, err := json.Marshal(map[string]any{"modules": []any{map[string]any{"versions": list}}})
	if err != nil {
		return nil, err
	}
	answer, err := modproxy.ParseVersions(document)
	if err != nil {
		return nil, err
	}
	answer.Time = time.Now()
	return answer, nil
}

// Location implements [modproxy.Registry].
func (m *Memory) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	module, version := v.Address, v.FullVersion()
	versions, err := m.find(ctx, "location", module, version)
	if err != nil {
		return modproxy.Location{}, err
	}
	address := strings.TrimPrefix(module.String(), module.Host+"/")
	return modproxy.Location{
		Getter: "https",
		URL:    "https://" + module.Host + "/archives/" + packageName(address, versions[version].spelling),
	}, nil
}

// Package implements [modproxy.Registry].
func (m *Memory) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	module, version := v.Address, v.FullVersion()
	versions, err := m.find(ctx, "package", module, version)
	if err != nil {
		return nil, err
	}
	s := versions[version]
	return &modproxy.Package{
		Body:   modproxy.NewBody(nopCloser{bytes.NewReader(s.data)}, s.digest),
		Digest: s.digest,
		Sum:    s.sum,
		Size:   int64(len(s.data)),
		Time:   modified,
	}, nil
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }
