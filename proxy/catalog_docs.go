package proxy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// The types have the form of registry-ui of OpenTofu (backend/internal/moduleindex/module.go and module_version.go).

type docsIndex struct {
	Address     docsAddress   `json:"addr"`
	Description string        `json:"description,omitempty"`
	Versions    []docsVersion `json:"versions"` // the newest is first
}

type docsAddress struct {
	Display   string `json:"display"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Target    string `json:"target,omitempty"` // of a module only
}

type docsVersion struct {
	ID        string    `json:"id"`
	Published time.Time `json:"published"`
}

func docsOf(h *modproxy.History) docsIndex {
	m := h.Module
	index := docsIndex{docsAddress{idOf(m), m.Namespace, m.Name, m.System}, h.Description, make([]docsVersion, 0, len(h.Versions))}
	order := map[string]modproxy.Version{}
	for _, v := range h.Versions {
		order[v.Version], _ = modproxy.ParseVersion(v.Version) // it is canonical
	}
	sorted := slices.SortedFunc(slices.Values(h.Versions), func(a, b modproxy.DatedVersion) int {
		return order[b.Version].Compare(order[a.Version])
	})
	for _, v := range sorted {
		index.Versions = append(index.Versions, docsVersion{"v" + v.Version, v.Published})
	}
	return index
}

type docsDocument struct {
	docsVersion
	Readme bool `json:"readme"`
	docsPart
	Submodules map[string]docsPart `json:"submodules"`
	Examples   map[string]docsPart `json:"examples"`
	Repository string              `json:"vcs_repository"`
}

type docsPart struct {
	Path      string               `json:"path,omitempty"`
	Variables map[string]docsInput `json:"variables"`
	Outputs   map[string]docsNamed `json:"outputs"`
	Calls     []docsCall           `json:"dependencies"`
	Providers []docsProvider       `json:"providers"`
	Resources []docsResource       `json:"resources"`
}

type docsInput struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Required    bool            `json:"required"`
}

type docsNamed struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type docsCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version_constraint"`
}

type docsProvider struct {
	Name    string `json:"name"`
	Source  string `json:"full_name"`
	Version string `json:"version_constraint"`
}

type docsResource struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	Name    string `json:"name"`
}

func docsDetailsOf(d *modproxy.Details) docsDocument {
	return docsDocument{
		docsVersion{"v" + d.Version, d.Published}, d.Root.Readme != "", docsPartOf(d.Root), docsPartsOf(d.Submodules),
		docsPartsOf(d.Examples), d.Source,
	}
}

func docsPartsOf(list []modproxy.Part) map[string]docsPart {
	parts := make(map[string]docsPart, len(list))
	for _, p := range list {
		parts[p.Name] = docsPartOf(p)
	}
	return parts
}

func docsPartOf(p modproxy.Part) docsPart {
	part := docsPart{
		p.Path, make(map[string]docsInput, len(p.Inputs)), make(map[string]docsNamed, len(p.Outputs)),
		[]docsCall{}, []docsProvider{}, []docsResource{},
	}
	for _, in := range p.Inputs {
		one := docsInput{in.Name, in.Type, in.Description, nil, in.Required}
		if json.Valid([]byte(in.Default)) {
			one.Default = json.RawMessage(in.Default)
		}
		part.Variables[in.Name] = one
	}
	for _, out := range p.Outputs {
		part.Outputs[out.Name] = docsNamed(out)
	}
	for _, call := range p.Calls {
		part.Calls = append(part.Calls, docsCall(call))
	}
	for _, need := range p.Providers {
		part.Providers = append(part.Providers, docsProvider{need.Name, need.Source, need.Version})
	}
	for _, r := range p.Resources {
		part.Resources = append(part.Resources, docsResource{r.Type + "." + r.Name, r.Type, r.Name})
	}
	return part
}
