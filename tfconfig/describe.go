package tfconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	inspect "github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// Description is the documentation of a module in the files of its package, as the public registry reads them: the README, and the
// results of terraform-config-inspect. A file that cannot be parsed does not affect the others.
//
// Control characters are removed from texts, as from those of registries. Names that are not a single line are left out.
//
// Lists are never nil. They are sorted by name. The public registry reads .tf files only, so x.tf is read and not x.tofu if both exist,
// unlike by [Reader.Read] for OpenTofu. An x.tofu without an x.tf is read.
type Description struct {
	Root       modproxy.Part   `json:"root"`       // without a name, which no file has
	Submodules []modproxy.Part `json:"submodules"` // modules/x, if it has configuration
	Examples   []modproxy.Part `json:"examples"`   // examples/x, if it has configuration
}

// Bounds of a description. The largest description of a real module that was found has 65 directories and 2 MiB.
const (
	maxParts       = 500     // directories of a package
	maxDescription = 8 << 20 // bytes of JSON
)

// partOf returns the path of the directory sub relative to the module in dir, and whether sub may be a part of the module.
func partOf(dir, sub string) (string, bool) {
	if sub == dir {
		return "", true
	}
	if dir != "." {
		var inside bool
		if sub, inside = strings.CutPrefix(sub, dir+"/"); !inside {
			return "", false
		}
	}
	above := path.Dir(sub)
	return sub, above == "modules" || above == "examples"
}

// describes reports whether a file is part of the description of the module in dir.
func describes(dir, name string) bool {
	_, part := partOf(dir, path.Dir(name))
	return part && (isReadme(name) || ending(name, modulesEnd) >= 0)
}

func isReadme(name string) bool { return strings.EqualFold(path.Base(name), "README.md") }

// describe describes the module in dir. Files may be truncated after maxFile bytes. It may end the process, as parse may.
func describe(files map[string][]byte, dir string) (*Description, error) {
	parts := map[string]folder{"": {}}
	for name, text := range files {
		if !describes(dir, name) {
			continue
		}
		part, _ := partOf(dir, path.Dir(name))
		if parts[part] == nil {
			parts[part] = folder{}
		}
		parts[part][path.Base(name)] = text
	}
	if len(parts) > maxParts {
		return nil, invalid("more than the %d directories that are described", maxParts)
	}
	out := &Description{Submodules: []modproxy.Part{}, Examples: []modproxy.Part{}}
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		part, err := parts[at].describe(path.Join(dir, at))
		if err != nil {
			return nil, err
		}
		part.Path = at
		switch {
		case at == "":
			out.Root = part
			continue
		case part.Empty, clean.Line(at) == "":
			continue
		}
		part.Name = path.Base(at)
		if path.Dir(at) == "modules" {
			out.Submodules = append(out.Submodules, part)
		} else {
			out.Examples = append(out.Examples, part)
		}
	}
	return out, nil
}

// folder maps the names of the files of one directory to their contents.
type folder map[string][]byte

// describe describes the module in one directory of a package. It leaves out a README larger than maxFile.
func (f folder) describe(dir string) (part modproxy.Part, err error) {
	read := folder{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		switch i := ending(name, modulesEnd); {
		case i < 0:
			if part.Readme == "" && len(f[name]) <= maxFile {
				part.Readme = clean.Prose(strings.ToValidUTF8(string(f[name]), "\ufffd"))
			}
			continue
		case i < 2:
			read[name] = f[name]
		default:
			as := strings.TrimSuffix(name, modulesEnd[i]) + modulesEnd[i-2]
			if _, there := f[as]; !there {
				read[as] = f[name]
			}
		}
		if len(f[name]) > maxFile {
			return part, invalid("%s: is larger than the %d KiB that are read", path.Join(dir, name), maxFile>>10)
		}
	}
	m, err := read.inspect(dir)
	if err != nil {
		return part, err
	}
	part.Empty = len(read) == 0
	part.Inputs = sorted(m.Variables, func(v *inspect.Variable) (modproxy.Input, bool) {
		in := modproxy.Input{
			Name: v.Name, Type: cmp.Or(clean.Prose(v.Type), "any"), Description: clean.Prose(v.Description), Required: v.Required,
		}
		if !v.Required {
			in.Default = clean.Prose(jsonOf(v.Default))
		}
		return in, clean.Line(v.Name) != ""
	})
	part.Outputs = sorted(m.Outputs, func(o *inspect.Output) (modproxy.Output, bool) {
		return modproxy.Output{Name: o.Name, Description: clean.Prose(o.Description)}, clean.Line(o.Name) != ""
	})
	part.Calls = sorted(m.ModuleCalls, func(c *inspect.ModuleCall) (modproxy.PartCall, bool) {
		_, local := ParseLocalSource(dir, c.Source)
		call := modproxy.PartCall{Name: clean.Line(c.Name), Source: clean.Line(c.Source), Version: clean.Line(c.Version)}
		return call, call.Source != "" && !local
	})
	part.Resources = sorted(m.ManagedResources, func(r *inspect.Resource) (modproxy.PartManaged, bool) {
		return modproxy.PartManaged{Name: r.Name, Type: r.Type}, clean.Line(r.Name) != "" && clean.Line(r.Type) != ""
	})
	part.Providers = []modproxy.PartNeed{}
	for _, name := range slices.Sorted(maps.Keys(m.RequiredProviders)) {
		needs := m.RequiredProviders[name]
		source := cmp.Or(clean.Line(needs.Source), implied(name))
		if clean.Line(name) == "" || strings.HasPrefix(source, builtin) {
			continue
		}
		if !strings.Contains(source, "/") {
			source = implied(source)
		}
		part.Providers = append(part.Providers, modproxy.PartNeed{
			Name: name, Namespace: path.Base(path.Dir(source)), Source: source, Version: clean.Line(strings.Join(needs.VersionConstraints, ", ")),
		})
	}
	return part, nil
}

// sorted converts the values of a map, in the order of the keys, and leaves out those that convert rejects.
func sorted[From, To any](all map[string]*From, convert func(*From) (To, bool)) []To {
	list := make([]To, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if to, ok := convert(all[key]); ok {
			list = append(list, to)
		}
	}
	return list
}

// jsonOf returns the JSON of a value, or the empty string if the value has no JSON form.
func jsonOf(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// inspect inspects the configuration in a directory. The library panics on input that its author did not expect, such as a number
// that is not a float64; inspect returns an error instead.
func (f folder) inspect(dir string) (m *inspect.Module, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = invalid("the configuration in %s cannot be described: %.*s", dir, maxReason, fmt.Sprint(why))
		}
	}()
	m, _ = inspect.LoadModuleFromFilesystem(f, ".")
	return m, nil
}

// Open, ReadFile and ReadDir implement [inspect.FS], which is older than [fs.FS].
func (f folder) Open(string) (inspect.File, error) { return nil, fs.ErrNotExist } // never called

func (f folder) ReadFile(name string) ([]byte, error) { return f[name], nil }

func (f folder) ReadDir(string) (list []fs.FileInfo, err error) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		list = append(list, entry{name: name})
	}
	return list, nil
}

// entry is the [fs.FileInfo] of a file of a folder. Only its name is set.
type entry struct {
	fs.FileInfo
	name string
}

func (e entry) Name() string { return e.name }
func (e entry) IsDir() bool  { return false }
