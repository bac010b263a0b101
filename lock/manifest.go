package lock

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/protocol"
)

// Call is one use of a module of a registry, as a client has installed it.
type Call struct {
	Key string // the names of the calls that lead to the module, separated by dots
	modproxy.Ref
	Package string // the directory of the module's package
	Subdir  string // the directory in the package that the registry returned, slash-separated; empty for the whole package
}

// record is the entry of a module in modules.json.
type record struct{ Key, Source, Version, Dir string }

const maxManifest = 64 << 20 // bytes

// Read returns the modules that a client has installed for the configuration in dir. data is the client's data directory,
// relative to dir: ".terraform" unless TF_DATA_DIR has another. others are the keys of modules from other sources, which are
// not compared.
//
// The error is [fs.ErrNotExist] if the manifest does not exist. It is [modproxy.ErrInvalid] if a directory is not where a
// client installs it: the client would load other files than those that are compared.
func Read(dir, data string) (calls []Call, others []string, err error) {
	if !filepath.IsAbs(data) {
		data = filepath.Join(dir, data)
	}
	name := filepath.Join(data, "modules", "modules.json")
	text, err := durable.ReadRegular(name, maxManifest)
	if err != nil {
		return nil, nil, err
	}
	var m struct{ Modules []record }
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", name, modproxy.ErrInvalid, err)
	}
	r := reader{dir: dir, modules: filepath.Dir(name), dirs: map[string]string{}}
	for _, rec := range m.Modules {
		if _, ok := r.dirs[rec.Key]; ok {
			return nil, nil, fmt.Errorf("%s: %w: module %.200q appears twice", name, modproxy.ErrInvalid, rec.Key)
		}
		at := filepath.FromSlash(rec.Dir)
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		r.dirs[rec.Key] = filepath.Clean(at)
	}
	for _, rec := range m.Modules {
		if err := r.add(rec); err != nil {
			return nil, nil, fmt.Errorf("%s: module %.200q: %w", name, rec.Key, err)
		}
	}
	return r.calls, r.others, nil
}

type reader struct {
	dir     string            // the configuration's directory
	modules string            // the directory of installed packages
	dirs    map[string]string // the directories of modules, by key
	calls   []Call
	others  []string
}

func (r *reader) add(rec record) error {
	const slash = string(filepath.Separator)
	dir := r.dirs[rec.Key]
	below, isBelow := strings.CutPrefix(dir, r.modules+slash)
	switch {
	case isBelow && slices.ContainsFunc(strings.Split(below, slash), isGit): // files ignores git's own directories
		return fmt.Errorf("%w: it is in %.200q, which belongs to git and is not part of a package", modproxy.ErrInvalid, rec.Dir)
	case rec.Key == "":
		if dir != filepath.Clean(r.dir) {
			return fmt.Errorf("%w: the configuration is in %.200q, not in %.200q", modproxy.ErrInvalid, r.dir, rec.Dir)
		}
		return nil
	case !isKey(rec.Key):
		return fmt.Errorf("%w: not a name of a module", modproxy.ErrInvalid)
	case rec.Version == "" && (strings.HasPrefix(rec.Source+"/", "./") || strings.HasPrefix(rec.Source+"/", "../")): // a path
		parent, ok := r.dirs[rec.Key[:max(0, strings.LastIndexByte(rec.Key, '.'))]]
		if want := filepath.Join(parent, filepath.FromSlash(rec.Source)); !ok || dir != want {
			return fmt.Errorf("%w: it is in %.200q, and not where its source says", modproxy.ErrInvalid, rec.Dir)
		}
		return nil
	}
	installed := filepath.Join(r.modules, rec.Key)
	inPackage, ok := strings.CutPrefix(dir, installed)
	if !ok || !strings.HasPrefix(inPackage+slash, slash) {
		return fmt.Errorf("%w: it is in %.200q, and not where clients install it", modproxy.ErrInvalid, rec.Dir)
	}
	if rec.Version == "" {
		if isRegistry(rec.Source) {
			return fmt.Errorf("%w: %.200q is a module of a registry, and has no version", modproxy.ErrInvalid, rec.Source)
		}
		v, inside, ok := parseAddress(rec.Source)
		switch {
		case !ok:
			r.others = append(r.others, rec.Key)
		case strings.TrimPrefix(filepath.ToSlash(inPackage), "/") != inside:
			return fmt.Errorf("%w: it is in %.200q, and its source is %.200q", modproxy.ErrInvalid, rec.Dir, rec.Source)
		default:
			r.calls = append(r.calls, Call{rec.Key, v, installed, ""})
		}
		return nil
	}
	m, inside, err := parseSource(rec.Source)
	if err != nil {
		return err
	}
	// The client joins the directory from the registry and the directory from the call (initwd/module_install.go).
	before, ok := strings.CutSuffix(filepath.ToSlash(inPackage), strings.TrimSuffix(path.Clean("/"+inside), "/"))
	subdir := strings.TrimPrefix(before, "/")
	if !ok || subdir != "" && !isSubdir(subdir) {
		return fmt.Errorf("%w: it is in %.200q, and its source is %.200q", modproxy.ErrInvalid, rec.Dir, rec.Source)
	}
	version, err := modproxy.CanonicalVersion(rec.Version)
	if err != nil {
		return err
	}
	r.calls = append(r.calls, Call{rec.Key, m.At(version), installed, subdir})
	return nil
}

// isKey reports whether s is a dot-separated list of names of calls. Each can be the name of a directory, and be printed.
func isKey(s string) bool {
	unfit := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("/\\:", r) }
	return !strings.ContainsFunc(s, unfit) && !slices.Contains(strings.Split(s, "."), "")
}

// parseAddress parses the address of a nested source, as in a package that a proxy has rewritten. It accepts any proxy: the
// ledger has the content of the source.
func parseAddress(source string) (v modproxy.Ref, inside string, ok bool) {
	source, inside, _ = strings.Cut(source, ".tar.gz")
	parts := strings.Split(source+".tar.gz", "/")
	q, err := anyProxy.Parse("", "/"+strings.Join(parts[max(0, len(parts)-8):], "/"))
	ok = err == nil && q.Kind == protocol.KindPackage && q.Variant.Kind == modproxy.NestedVariant && (inside == "" || strings.HasPrefix(inside, "//"))
	return q.Ref, strings.TrimPrefix(path.Clean("/"+inside), "/"), ok
}

// anyProxy reads the paths of a proxy for any registry.
var anyProxy = &protocol.Upstreams{Any: true}

// isRegistry reports whether a source is in a registry, with its hostname or, as older clients write it, without.
func isRegistry(source string) bool {
	_, _, err := parseSource(source)
	_, _, errWithout := parseSource("registry.terraform.io/" + source)
	return err == nil || errWithout == nil
}
