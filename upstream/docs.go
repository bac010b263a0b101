package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// docsHistory reads the index of a module in the documentation API of the OpenTofu registry (registry-ui,
// backend/internal/moduleindex/module.go).
func (r *reading) docsHistory(document []byte, m modproxy.Address) (*modproxy.History, error) {
	var doc struct {
		Versions json.RawMessage `json:"versions"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes the versions is not a JSON object", modproxy.ErrInvalid)
	}
	all := dated{}
	for _, text := range r.elements(doc.Versions) {
		var one struct {
			ID        string `json:"id"`
			Published string `json:"published"`
		}
		if object(text, &one) {
			all.add(modproxy.DatedVersion{Version: canonical(one.ID), Published: date(one.Published)})
		}
	}
	return &modproxy.History{Module: m, Versions: all.list()}, r.err
}

// docsPart is the description of one directory in that API (module_version.go in the same place). Elements that are
// keyed by name do not repeat their name.
type docsPart struct {
	Path      string          `json:"path"` // not every directory has it
	Variables json.RawMessage `json:"variables"`
	Outputs   json.RawMessage `json:"outputs"`
	Calls     json.RawMessage `json:"dependencies"`
	Providers json.RawMessage `json:"providers"`
	Resources json.RawMessage `json:"resources"`
}

// docsDetails reads the description of v in that API. The readme is in another document.
func (r *reading) docsDetails(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		docsPart
		ID         string          `json:"id"`
		Published  string          `json:"published"`
		Repository string          `json:"vcs_repository"`
		Submodules json.RawMessage `json:"submodules"`
		Examples   json.RawMessage `json:"examples"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.ID, v); err != nil {
		return nil, err
	}
	d := &modproxy.Details{
		Summary: modproxy.Summary{Ref: v, Source: webURL(nil, doc.Repository), Tag: clean.Line(doc.ID), Published: date(doc.Published)},
		Root:    r.docsPart("", doc.docsPart), Submodules: r.docsParts("modules/", doc.Submodules), Examples: r.docsParts("examples/", doc.Examples),
	}
	d.Root.Name = v.Name
	return d, r.err
}

// docsParts reads the directories below dir, sorted by path.
func (r *reading) docsParts(dir string, byName json.RawMessage) []modproxy.Part {
	parts := []modproxy.Part{}
	for name, text := range r.elements(byName) {
		var doc docsPart
		if !object(text, &doc) || clean.Line(name) == "" {
			continue
		}
		at := dir + name
		if isPath(doc.Path) {
			at = doc.Path
		}
		if p := r.docsPart(at, doc); isPath(at) {
			p.Name = name
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b modproxy.Part) int { return strings.Compare(a.Path, b.Path) })
	return parts
}

func (r *reading) docsPart(dir string, doc docsPart) modproxy.Part {
	p := newPart(dir)
	for name, text := range r.elements(doc.Variables) {
		var in struct {
			modproxy.Input
			Default json.RawMessage `json:"default"`
		}
		if !object(text, &in) || clean.Line(name) == "" {
			continue
		}
		in.Input.Name, in.Input.Default = name, jsonText(in.Default, false)
		if !in.Required {
			in.Input.Default = cmp.Or(in.Input.Default, "null")
		}
		p.Inputs = append(p.Inputs, input(in.Input))
	}
	slices.SortStableFunc(p.Inputs, func(a, b modproxy.Input) int { return strings.Compare(a.Name, b.Name) })
	for name, text := range r.elements(doc.Outputs) {
		if out := (modproxy.Output{}); object(text, &out) && clean.Line(name) != "" {
			p.Outputs = append(p.Outputs, modproxy.Output{Name: name, Description: clean.Prose(out.Description)})
		}
	}
	slices.SortStableFunc(p.Outputs, func(a, b modproxy.Output) int { return strings.Compare(a.Name, b.Name) })
	for _, text := range r.elements(doc.Calls) {
		var call struct {
			Name    string `json:"name"`
			Source  string `json:"source"`
			Version string `json:"version_constraint"`
		}
		// The API also lists calls of directories in the same package.
		if object(text, &call) && clean.Line(call.Name) != "" && !strings.HasPrefix(call.Source, ".") {
			p.Calls = append(p.Calls, modproxy.PartCall{Name: call.Name, Source: clean.Line(call.Source), Version: clean.Line(call.Version)})
		}
	}
	for _, text := range r.elements(doc.Providers) {
		var need struct {
			Name    string `json:"name"`
			Source  string `json:"full_name"`
			Version string `json:"version_constraint"`
		}
		if object(text, &need) && clean.Line(need.Name) != "" {
			// The address of a provider ends in its namespace and its type.
			namespace := path.Base(path.Dir(clean.Line(need.Source)))
			p.Providers = append(p.Providers, modproxy.PartNeed{
				Name: need.Name, Namespace: strings.Trim(namespace, "./"), Source: clean.Line(need.Source), Version: clean.Line(need.Version),
			})
		}
	}
	for _, text := range r.elements(doc.Resources) {
		var managed struct {
			modproxy.PartManaged
			Address string `json:"address"`
		}
		known := object(text, &managed) && clean.Line(managed.Name) != "" && clean.Line(managed.Type) != ""
		if known && !strings.HasPrefix(managed.Address, "data.") {
			p.Resources = append(p.Resources, managed.PartManaged)
		}
	}
	return p
}
