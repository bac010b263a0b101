package modproxy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A [Registry] also answers requests about providers:
//
//   - Versions lists the versions of the provider, with the protocols and platforms of each.
//   - Package of a version returns its release, which package release describes: the checksums of its archives for all
//     platforms, their signature, and the signing keys.
//   - Package of [Ref.ForPlatform] returns the zip archive for one platform, unchanged from the registry. Provider registries
//     call its Digest shasum, and lock files call it zh. Its Sum has the same hash.
//   - Location reports whether the archive is stored, or begins to download it.

// NewProvider returns the canonical address of a provider, in lower case: the clients fold it (terraform-registry-address
// provider.go). host must have the form that package hostname returns.
func NewProvider(host, namespace, typ string) Address {
	return Address{Host: host, Namespace: strings.ToLower(namespace), Name: strings.ToLower(typ)}
}

// CheckProvider returns [ErrInvalid] if m is not the canonical address of a provider. It rejects letters beyond ASCII, which
// the clients accept.
func (m Address) CheckProvider() error {
	const name = "want 1 to 64 lower-case letters, digits, - and _, with a letter or digit at both ends, and no --"
	switch {
	case !m.IsProvider():
		return fmt.Errorf("%w: %.200q is the address of a module; want that of a provider: host/namespace/type", ErrInvalid, m)
	case !isProviderName(m.Namespace):
		return fmt.Errorf("%w: provider namespace %.80q: "+name, ErrInvalid, m.Namespace)
	case !isProviderName(m.Name):
		return fmt.Errorf("%w: provider type %.80q: "+name, ErrInvalid, m.Name)
	case strings.HasPrefix(m.Name, "terraform-"):
		return fmt.Errorf("%w: provider type %.80q: no type begins with terraform-", ErrInvalid, m.Name)
	}
	return nil
}

// CheckAddress calls Check for a module, and CheckProvider for a provider.
func (m Address) CheckAddress() error {
	switch m.Kind() {
	case Provider:
		return m.CheckProvider()
	case Module:
	}
	return m.Check()
}

func isProviderName(s string) bool {
	return isName(s) && s == strings.ToLower(s) && !strings.Contains(s, "--")
}

// Platform is the operating system and architecture of a provider's package.
type Platform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

var platformPattern = regexp.MustCompile(`^([0-9a-z]{1,32})_([0-9a-z]{1,32})$`)

// ParsePlatform parses the result of [Platform.String]. Errors wrap [ErrInvalid].
func ParsePlatform(s string) (Platform, error) {
	m := platformPattern.FindStringSubmatch(s)
	if m == nil {
		return Platform{}, fmt.Errorf("%w: platform %.80q: want an operating system and an architecture, as in linux_amd64", ErrInvalid, s)
	}
	return Platform{m[1], m[2]}, nil
}

// String returns the platform in the form of lock files and mirrors: linux_amd64.
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Release is the entry of one version of a provider in a versions document.
type Release struct {
	Version   string     `json:"version"` // canonical
	Protocols []string   `json:"protocols,omitempty"`
	Platforms []Platform `json:"platforms,omitempty"`
}

const (
	maxProtocols = 16
	maxPlatforms = 128
	maxWarnings  = 16
	maxWarning   = 2 << 10 // bytes
)

// ParseProviderVersions parses the versions document of a provider registry
// (https://developer.hashicorp.com/terraform/internals/provider-registry-protocol). The Document of the result is written
// again, with the fields that clients read: versions in their canonical spelling, each once, protocols, platforms, and
// warnings. An entry is dropped if its version is invalid for the clients (apparentlymart/go-versions: at most three numbers,
// no v), has a [Variant], or has numbers beyond 64 bits, which make both clients panic.
//
// Errors: those of [ParseVersions].
func ParseProviderVersions(document []byte) (*Versions, error) {
	var read struct {
		Versions []*struct {
			Version   string          `json:"version"`
			Protocols json.RawMessage `json:"protocols"`
			Platforms json.RawMessage `json:"platforms"`
		} `json:"versions"`
		Warnings json.RawMessage `json:"warnings"`
	}
	if err := json.Unmarshal(document, &read); err != nil {
		return nil, shapeError("%w", err)
	}
	if len(read.Versions) > maxListed {
		return nil, shapeError("more than the %d versions that are allowed", maxListed)
	}
	out, seen := providerDocument{Versions: []json.RawMessage{}}, map[string]bool{}
	for _, entry := range read.Versions {
		if entry == nil {
			continue
		}
		version, err := ParseVersion(entry.Version)
		r := Release{Version: version.String()}
		if err != nil || version.hasVariant() || !version.isProviders(entry.Version) || seen[r.Version] {
			continue
		}
		seen[r.Version] = true
		_ = json.Unmarshal(entry.Protocols, &r.Protocols) // a value that is not a list is left out: no client needs it
		_ = json.Unmarshal(entry.Platforms, &r.Platforms)
		r.Protocols = slices.DeleteFunc(r.Protocols, func(s string) bool { return s == "" || len(s) > 32 })
		r.Platforms = slices.DeleteFunc(r.Platforms, func(p Platform) bool { return !platformPattern.MatchString(p.String()) })
		if len(r.Protocols) > maxProtocols || len(r.Platforms) > maxPlatforms {
			continue
		}
		text, err := json.Marshal(r)
		if err != nil {
			return nil, shapeError("%w", err)
		}
		out.Versions = append(out.Versions, text)
	}
	var warnings []string
	_ = json.Unmarshal(read.Warnings, &warnings) // clients fail if it is not a list
	for _, w := range warnings {
		if w != "" && len(w) <= maxWarning && len(out.Warnings) < maxWarnings {
			out.Warnings = append(out.Warnings, w)
		}
	}
	if len(out.Versions) == 0 && len(read.Versions) > 0 {
		return nil, shapeError("clients can parse none of its %d versions", len(read.Versions))
	}
	v, err := out.parse()
	if err == nil {
		v.Dropped = len(read.Versions) - len(v.List)
	}
	return v, err
}

// isProviders reports whether clients accept v, spelled like this, as the version of a provider.
func (v Version) isProviders(spelled string) bool {
	return len(v.segments) == 3 && isDigit(rune(spelled[0])) && !strings.ContainsAny(spelled, "~_")
}

// providerDocument is a provider's versions document as modproxy writes it.
type providerDocument struct {
	Versions []json.RawMessage `json:"versions"`
	Warnings []string          `json:"warnings,omitempty"`
}

func (d providerDocument) parse() (*Versions, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, shapeError("%w", err)
	}
	return parseVersions(text, nil, Provider, nil, nil)
}

// Release returns the entry of a provider's version.
func (l Listed) Release() Release {
	var r Release
	_ = json.Unmarshal(l.Entry, &r) // ParseProviderVersions wrote it
	r.Version = l.Version.String()
	return r
}

// OfPlatforms returns the versions of a provider that are in platforms, each with only these platforms. It returns nil if no
// version remains. It does not change v.
func (v *Versions) OfPlatforms(platforms map[string][]Platform) (*Versions, error) {
	var d providerDocument
	if err := json.Unmarshal(v.Document, &d); err != nil {
		return nil, shapeError("%w", err)
	}
	d.Versions = []json.RawMessage{}
	for _, l := range v.List {
		r := l.Release()
		if r.Platforms = platforms[r.Version]; len(r.Platforms) == 0 {
			continue
		}
		text, err := json.Marshal(r)
		if err != nil {
			return nil, shapeError("%w", err)
		}
		d.Versions = append(d.Versions, text)
	}
	if len(d.Versions) == 0 {
		return nil, nil
	}
	some, err := d.parse()
	if err != nil {
		return nil, err
	}
	return some.like(v), nil
}

// Warn returns the versions of a provider with additional warnings, which clients print. It does not change v.
func (v *Versions) Warn(texts ...string) (*Versions, error) {
	var d providerDocument
	if err := json.Unmarshal(v.Document, &d); err != nil {
		return nil, shapeError("%w", err)
	}
	texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return slices.Contains(d.Warnings, text) })
	if len(texts) == 0 {
		return v, nil
	}
	d.Warnings = append(d.Warnings, texts...)
	warned, err := d.parse()
	if err != nil {
		return nil, err
	}
	return warned.like(v), nil
}
