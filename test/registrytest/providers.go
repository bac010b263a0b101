package registrytest

import (
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// provider is one provider of the fixture.
type provider struct {
	releases map[string]*release // by version as spelled
	document []byte              // an explicit versions document
	warnings []string
}

// release is one version of a provider: its knobs and its files.
type release struct {
	files []file // files of its zips; empty for the default executable
	knobs []byte // as in the fixture

	zip, sumsAre, signature, names string   // faults of these
	key                            string   // name of the signing key
	keys                           []string // names of the keys that the registry lists; nil for the signing key
	platforms                      []string // as OS_ARCH
	protocols                      json.RawMessage
	size                           int // of the data in every zip, in MiB
	listed                         bool
	settings                       map[Kind]*setting // settings for requests about this version

	address, version string
	prefix           string // of the names of its files
	signatureName    string
	sums             map[string]string // of its zips, by their names
	listedKeys       []any
	blobs            map[string]blob // all of its files, by name
}

// addProvider adds providers/NAMESPACE/TYPE/VERSION, which contains knobs, …/VERSION/knobs, which contains those of a
// version with its own files, …/VERSION/FILE, which is such a file, …/versions and …/warnings.
func (c *content) addProvider(name string, f file) error {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 3 {
		return fmt.Errorf("want providers/NAMESPACE/TYPE/VERSION")
	}
	address, version := path.Join(parts[:2]...), parts[2]
	p := c.providers[address]
	if p == nil {
		p = &provider{releases: map[string]*release{}}
		c.providers[address] = p
	}
	switch {
	case len(parts) == 3 && version == "versions":
		p.document = f.data
		return nil
	case len(parts) == 3 && version == "warnings":
		p.warnings = strings.Split(strings.TrimSpace(string(f.data)), "\n")
		return nil
	}
	if p.releases[version] == nil {
		p.releases[version] = &release{}
	}
	if len(parts) == 3 || parts[3] == "knobs" {
		p.releases[version].knobs = f.data
		return nil
	}
	f.name = parts[3]
	p.releases[version].files = append(p.releases[version].files, f)
	return nil
}

// Platforms returns the default platforms of a version of a provider, as OS_ARCH, with that of this machine.
func Platforms() []string {
	list := []string{"darwin_arm64", "linux_amd64", runtime.GOOS + "_" + runtime.GOARCH}
	slices.Sort(list)
	return slices.Compact(list)
}

// turn reads the knobs of a version, one a line.
func (r *release) turn(lines string) error {
	r.key, r.platforms, r.protocols, r.listed = "publisher", Platforms(), json.RawMessage(`["5.0"]`), true
	r.settings = map[Kind]*setting{}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%q: want KNOB=VALUE", line)
		}
		if err := r.set(name, value); err != nil {
			return err
		}
	}
	if r.keys == nil {
		r.keys = []string{r.key}
	}
	for _, s := range r.settings {
		s.left = s.Times
	}
	return nil
}

func (r *release) set(name, value string) (err error) {
	oneOf := func(to *string, values ...string) error {
		if *to = value; !slices.Contains(values, value) {
			return fmt.Errorf("knob %s: %q: want %s", name, value, strings.Join(values, ", "))
		}
		return nil
	}
	switch name {
	case "zip":
		return oneOf(&r.zip, "changed", "truncated", "text", "page", "directories")
	case "sums":
		return oneOf(&r.sumsAre, "wrong", "missing", "blank", "many", "large", "manifest")
	case "signature":
		return oneOf(&r.signature, "wrong", "armored", "empty")
	case "names":
		return oneOf(&r.names, "odd", "v", "old", "swapped")
	case "key":
		r.key = value
	case "keys":
		r.keys = []string{}
		if value != "" {
			r.keys = strings.Split(value, ",")
		}
	case "platforms":
		r.platforms = strings.Split(value, ",")
	case "protocols":
		r.protocols = json.RawMessage(value)
		if !json.Valid(r.protocols) {
			err = fmt.Errorf("want JSON")
		}
	case "size":
		r.size, err = strconv.Atoi(value)
	case "listed":
		r.listed, err = strconv.ParseBool(value)
	default:
		kind, knob, _ := strings.Cut(name, ".")
		k := Kind(kind)
		if !slices.Contains([]Kind{ProviderDownload, Sums, Signature, Zip}, k) || knob == "hold" || knob == "stall" {
			return fmt.Errorf("no knob %q", name)
		}
		if r.settings[k] == nil {
			r.settings[k] = &setting{}
		}
		return r.settings[k].Set(knob, value)
	}
	if err != nil {
		return fmt.Errorf("knob %s: %q: %w", name, value, err)
	}
	return nil
}
