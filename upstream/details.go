package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/modproxy/modproxy"
)

// summary is a module in a list, and the beginning of the document about a version.
type summary struct {
	modproxy.Summary
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	System    string `json:"provider"`
	Version   string `json:"version"`
	Published string `json:"published_at"`
}

func (r *reading) summary(s summary, v modproxy.ModuleVersion) modproxy.Summary {
	return modproxy.Summary{
		ModuleVersion: v,
		Owner:         line(s.Owner), Logo: webURL(r.from, s.Logo), Description: prose(s.Description), Source: webURL(nil, s.Source),
		Tag: line(s.Tag), Published: date(s.Published), Downloads: max(0, s.Downloads), Verified: s.Verified,
	}
}

// details reads the document about v. One about another version, such as the latest one, is [modproxy.ErrNotFound].
func (r *reading) details(document []byte, v modproxy.ModuleVersion) (*modproxy.Details, error) {
	var doc struct {
		summary
		Root        json.RawMessage `json:"root"`
		Submodules  json.RawMessage `json:"submodules"`
		Examples    json.RawMessage `json:"examples"`
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
	}
	d.Root.Path = ""
	if deprecation := (modproxy.Deprecation{}); object(doc.Deprecation, &deprecation) {
		d.Deprecation = &modproxy.Deprecation{Reason: prose(deprecation.Reason), Link: webURL(nil, deprecation.Link)}
	}
	return d, r.err
}

// isAbout returns an error if a document with that version says nothing about v.
func isAbout(version string, v modproxy.ModuleVersion) error {
	if plain(canonical(version)) == plain(v.Version) {
		return nil
	}
	return fmt.Errorf("%w: the registry describes version %.80q in its place", modproxy.ErrNotFound, version)
}

// parts reads a list of directories. One whose path is none in a package is left out.
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
	return line(s) != "" && s != "." && fs.ValidPath(s) && !strings.Contains(s, `\`)
}

// part reads what is said of one directory. What is no object says nothing.
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
	p := newPart(doc.Path)
	p.Name, p.Readme, p.Empty = line(doc.Name), prose(doc.Readme), doc.Empty
	for _, text := range r.elements(doc.Inputs) {
		var in struct {
			modproxy.Input
			Default json.RawMessage `json:"default"`
		}
		if object(text, &in) && line(in.Name) != "" {
			in.Input.Default = jsonText(in.Default, true)
			p.Inputs = append(p.Inputs, input(in.Input))
		}
	}
	for _, text := range r.elements(doc.Outputs) {
		if out := (modproxy.Output{}); object(text, &out) && line(out.Name) != "" {
			p.Outputs = append(p.Outputs, modproxy.Output{Name: out.Name, Description: prose(out.Description)})
		}
	}
	for _, text := range r.elements(doc.Calls) {
		if call := (modproxy.PartCall{}); object(text, &call) && line(call.Name+call.Source) != "" {
			p.Calls = append(p.Calls, modproxy.PartCall{Name: line(call.Name), Source: line(call.Source), Version: line(call.Version)})
		}
	}
	for _, text := range r.elements(doc.Providers) {
		if need := (modproxy.PartNeed{}); object(text, &need) && line(need.Name) != "" {
			p.Providers = append(p.Providers, modproxy.PartNeed{
				Name: need.Name, Namespace: line(need.Namespace), Source: line(need.Source), Version: line(need.Version),
			})
		}
	}
	for _, text := range r.elements(doc.Resources) {
		if managed := (modproxy.PartManaged{}); object(text, &managed) && line(managed.Name) != "" && line(managed.Type) != "" {
			p.Resources = append(p.Resources, managed)
		}
	}
	return p
}

// newPart returns a directory of which nothing is known: it has lists without elements.
func newPart(path string) modproxy.Part {
	return modproxy.Part{
		Path: path, Inputs: []modproxy.Input{}, Outputs: []modproxy.Output{}, Calls: []modproxy.PartCall{},
		Providers: []modproxy.PartNeed{}, Resources: []modproxy.PartManaged{},
	}
}

// input returns in as it is kept.
func input(in modproxy.Input) modproxy.Input {
	in.Type, in.Description = cmp.Or(prose(in.Type), "any"), prose(in.Description)
	return in
}
