package documents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// summary is a version in a list, and the beginning of the document about it, below /v1/.
type summary struct {
	ID          string    `json:"id"`
	Owner       string    `json:"owner"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	System      string    `json:"provider"`
	Logo        string    `json:"provider_logo_url"`
	Description string    `json:"description"`
	Source      string    `json:"source"`
	Tag         string    `json:"tag"`
	Published   timestamp `json:"published_at"`
	Downloads   int64     `json:"downloads"`
	Verified    bool      `json:"verified"`
}

func (r *reading) summary(s summary, v modproxy.Ref) modproxy.Summary {
	return modproxy.Summary{
		Ref:   v,
		Owner: clean.Line(s.Owner), Logo: webURL(r.from, s.Logo), Description: clean.Prose(s.Description), Source: webURL(nil, s.Source),
		Tag: clean.Line(s.Tag), Published: s.Published.Time, Downloads: max(0, s.Downloads), Verified: s.Verified,
	}
}

func summaryOf(s *modproxy.Summary) summary {
	return summary{
		idOf(s.Address) + "/" + s.Version, s.Owner, s.Namespace, s.Name, s.Version, s.System, s.Logo, s.Description, s.Source,
		s.Tag, timestamp{s.Published}, s.Downloads, s.Verified,
	}
}

type details struct {
	summary
	Root        modproxy.Part         `json:"root"`
	Submodules  []modproxy.Part       `json:"submodules"`
	Examples    []modproxy.Part       `json:"examples"`
	Systems     []string              `json:"providers"`
	Versions    []string              `json:"versions"`
	Deprecation *modproxy.Deprecation `json:"deprecation"`
}

// FormatDetails returns the document below /v1/ about a version of a module or a provider, with the versions in list.
func FormatDetails(d *modproxy.Details, list *modproxy.Versions) any {
	switch d.Kind() {
	case modproxy.Provider:
		return providerDetailsOf(d, list)
	case modproxy.Module:
	}
	return details{
		summaryOf(&d.Summary), withLists(d.Root), allWithLists(d.Submodules), allWithLists(d.Examples),
		slices.Sorted(slices.Values(append([]string{d.System}, d.Systems...))), ascending(list), d.Deprecation,
	}
}

// withLists returns p with empty lists instead of nil: the cache stores descriptions as JSON, and clients do not expect null.
func withLists(p modproxy.Part) modproxy.Part {
	p.Inputs, p.Outputs, p.Calls = notNil(p.Inputs), notNil(p.Outputs), notNil(p.Calls)
	p.Providers, p.Resources = notNil(p.Providers), notNil(p.Resources)
	return p
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func allWithLists(list []modproxy.Part) []modproxy.Part {
	all := make([]modproxy.Part, len(list))
	for i, p := range list {
		all[i] = withLists(p)
	}
	return all
}

// ParseDetails reads the document below /v1/ about v, a version of a module or a provider. from is the URL of the document.
func ParseDetails(document []byte, from *url.URL, v modproxy.Ref) (*modproxy.Details, error) {
	switch v.Kind() {
	case modproxy.Provider:
		return newReading(from).provider(document, v)
	case modproxy.Module:
	}
	return newReading(from).details(document, v)
}

// details reads the document about v, a version of a module.
func (r *reading) details(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		summary
		Root        json.RawMessage `json:"root"`
		Submodules  json.RawMessage `json:"submodules"`
		Examples    json.RawMessage `json:"examples"`
		Systems     json.RawMessage `json:"providers"`
		Deprecation json.RawMessage `json:"deprecation"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.Version, v); err != nil {
		return nil, err
	}
	d := &modproxy.Details{
		Summary: r.summary(doc.summary, v), Root: r.part(doc.Root), Submodules: r.parts(doc.Submodules), Examples: r.parts(doc.Examples),
		Systems: r.siblings(doc.Systems, v.Address),
	}
	d.Root.Path = ""
	if deprecation := (modproxy.Deprecation{}); object(doc.Deprecation, &deprecation) {
		d.Deprecation = &modproxy.Deprecation{Reason: clean.Prose(deprecation.Reason), Link: webURL(nil, deprecation.Link)}
	}
	return d, r.err
}

// isAbout returns an error unless version, from a document, is the version of v.
func isAbout(version string, v modproxy.Ref) error {
	if canonical(version) == v.Version {
		return nil
	}
	return fmt.Errorf("%w: the registry describes version %.80q in its place", modproxy.ErrNotFound, version)
}

// siblings reads the other target systems for which modules of m's name exist.
func (r *reading) siblings(list json.RawMessage, m modproxy.Address) (systems []string) {
	own := m.System
	for _, text := range r.elements(list) {
		if json.Unmarshal(text, &m.System) == nil && m.Check() == nil && m.System != own {
			systems = append(systems, m.System)
		}
	}
	slices.Sort(systems)
	if systems = slices.Compact(systems); len(systems) > maxSystems {
		r.err = fmt.Errorf("%w: it names more than the %d systems that are allowed", modproxy.ErrInvalid, maxSystems)
	}
	return systems
}

// parts reads a list of directories. It omits entries whose path cannot be a directory of a package.
func (r *reading) parts(list json.RawMessage) []modproxy.Part {
	parts := []modproxy.Part{}
	for _, text := range r.elements(list) {
		if p := r.part(text); isPath(p.Path) {
			parts = append(parts, p)
		}
	}
	return parts
}

// isPath reports whether s is the path of a directory below another one.
func isPath(s string) bool {
	return clean.Line(s) != "" && s != "." && fs.ValidPath(s) && !strings.Contains(s, `\`)
}

// part reads the description of one directory. If text is not an object, the description is empty.
func (r *reading) part(text json.RawMessage) modproxy.Part {
	var doc struct {
		modproxy.Part
		Inputs    json.RawMessage `json:"inputs"`
		Outputs   json.RawMessage `json:"outputs"`
		Calls     json.RawMessage `json:"dependencies"`
		Providers json.RawMessage `json:"provider_dependencies"`
		Resources json.RawMessage `json:"resources"`
	}
	object(text, &doc)
	p := withLists(modproxy.Part{Path: doc.Path, Name: clean.Line(doc.Name), Readme: clean.Prose(doc.Readme), Empty: doc.Empty})
	for _, text := range r.elements(doc.Inputs) {
		if in := (input{}); object(text, &in) && clean.Line(in.Name) != "" {
			p.Inputs = append(p.Inputs, in.read(in.Name, jsonText(in.Default, true)))
		}
	}
	for _, text := range r.elements(doc.Outputs) {
		if out := (modproxy.Output{}); object(text, &out) && clean.Line(out.Name) != "" {
			p.Outputs = append(p.Outputs, modproxy.Output{Name: out.Name, Description: clean.Prose(out.Description)})
		}
	}
	for _, text := range r.elements(doc.Calls) {
		if call := (modproxy.PartCall{}); object(text, &call) && clean.Line(call.Name+call.Source) != "" {
			p.Calls = append(p.Calls, modproxy.PartCall{Name: clean.Line(call.Name), Source: clean.Line(call.Source), Version: clean.Line(call.Version)})
		}
	}
	for _, text := range r.elements(doc.Providers) {
		if need := (modproxy.PartNeed{}); object(text, &need) && clean.Line(need.Name) != "" {
			p.Providers = append(p.Providers, modproxy.PartNeed{
				Name: need.Name, Namespace: clean.Line(need.Namespace), Source: clean.Line(need.Source), Version: clean.Line(need.Version),
			})
		}
	}
	for _, text := range r.elements(doc.Resources) {
		if managed := (modproxy.PartManaged{}); object(text, &managed) && clean.Line(managed.Name) != "" && clean.Line(managed.Type) != "" {
			p.Resources = append(p.Resources, managed)
		}
	}
	return p
}

// input is a variable of a module, with its default as it is in the document.
type input struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Required    bool            `json:"required"`
}

// read returns the variable with cleaned texts.
func (in input) read(name, value string) modproxy.Input {
	return modproxy.Input{
		Name: name, Type: cmp.Or(clean.Prose(in.Type), "any"), Description: clean.Prose(in.Description), Default: value, Required: in.Required,
	}
}
