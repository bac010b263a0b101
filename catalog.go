package modproxy

import (
	"context"
	"time"
)

// Catalog describes the modules and providers of registries. It follows the API that registries offer beside the registry
// protocols (https://developer.hashicorp.com/terraform/registry/api-docs). Clients do not install from its answers. The
// [Address] of a provider has no System.
//
// Implementations are safe for concurrent use. Arguments were checked, as for [Registry]. Results are shared: callers must
// not change them. Every error wraps a sentinel of this package or the error of the context.
type Catalog interface {
	// Details describes one version of a module or a provider.
	//
	// Errors: [ErrNotFound] if the registry does not describe the version, [ErrDenied], [ErrUnavailable].
	Details(ctx context.Context, v Ref) (*Details, error)

	// History returns the publication times of the versions of m. Errors are those of Details.
	History(ctx context.Context, m Address) (*History, error)

	// Downloads returns the number of downloads of m. Errors are those of Details.
	Downloads(ctx context.Context, m Address) (*Downloads, error)

	// List lists the modules of one registry that q selects, each with its latest version. Errors are those of Details.
	List(ctx context.Context, q Query) (*Page, error)

	// Text returns the text of a document of v, a version of a provider. id is the ID of the [Doc] in the Details of v.
	// Errors are those of Details.
	Text(ctx context.Context, v Ref, id string) (*Text, error)
}

// Answered has the time of an answer, and reports whether it came from the cache.
type Answered struct {
	Time  time.Time `json:"-"` // when the registry gave the answer, or modproxy made it
	Hit   bool      `json:"-"` // the answer came from the cache
	Stale bool      `json:"-"` // the answer has expired
}

// Summary is the entry of one version of a module or a provider in a list.
type Summary struct {
	Ref         `json:"-"`
	Owner       string    `json:"owner"`
	Logo        string    `json:"provider_logo_url"` // of the system, or of the provider
	Description string    `json:"description"`
	Source      string    `json:"source"` // the URL of the repository
	Tag         string    `json:"tag"`
	Published   time.Time `json:"published_at"` // zero if not known
	Downloads   int64     `json:"downloads"`
	Verified    bool      `json:"verified"`
	Alias       string    `json:"alias,omitempty"` // another name of a provider
	Tier        string    `json:"tier,omitempty"`  // of a provider, such as official, partner or community
}

// Details describes one version of a module or a provider. Root, Submodules, Examples and Systems are for modules. Docs is
// for providers.
type Details struct {
	Summary
	Root        Part         `json:"root"`
	Submodules  []Part       `json:"submodules"`
	Examples    []Part       `json:"examples"`
	Systems     []string     `json:"providers"`   // the other target systems of modules with this name: sorted, each once
	Deprecation *Deprecation `json:"deprecation"` // nil for a version that is not deprecated
	Docs        []Doc        `json:"docs,omitempty"`
	Listed      string       `json:"-"` // the entity tag of the versions that the client may use; may be empty
	Answered    `json:"-"`
}

// Doc is a document about one version of a provider, without its text.
type Doc struct {
	ID          string `json:"id"` // the registry's identifier: a number, or a path such as resources/gate
	Title       string `json:"title"`
	Path        string `json:"path"` // in the repository
	Slug        string `json:"slug"` // the last segment of its address
	Category    string `json:"category"`
	Subcategory string `json:"subcategory"`
	Language    string `json:"language"`
	Description string `json:"description,omitempty"`
	Link        string `json:"link,omitempty"` // the URL of the document's source
}

// Text is the text of a [Doc], in Markdown.
type Text struct {
	Content string `json:"content"`
	Answered
}

// Part describes one directory of a module.
type Part struct {
	Path      string        `json:"path"` // slash-separated, from the root of the package; empty for the module itself
	Name      string        `json:"name"`
	Readme    string        `json:"readme"` // in Markdown
	Empty     bool          `json:"empty"`  // the directory has no configuration
	Inputs    []Input       `json:"inputs"`
	Outputs   []Output      `json:"outputs"`
	Calls     []PartCall    `json:"dependencies"` // of modules outside the package
	Providers []PartNeed    `json:"provider_dependencies"`
	Resources []PartManaged `json:"resources"` // without data sources
}

// Input is a variable of a module.
type Input struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // an expression; "any" if the variable has no type
	Description string `json:"description"`
	Default     string `json:"default"` // the value as JSON text; empty if the variable has no default
	Required    bool   `json:"required"`
}

// Output is an output of a module.
type Output struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// PartCall is a call of another module.
type PartCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version"` // the constraint; empty for any
}

// PartNeed is a required provider.
type PartNeed struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Version   string `json:"version"` // the constraint; empty for any
}

// PartManaged is a managed resource.
type PartManaged struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Deprecation is the reason why a version should no longer be used.
type Deprecation struct {
	Reason string `json:"reason"`
	Link   string `json:"link"`
}

// History describes all versions of a module or a provider. A field is zero if the registry does not return it.
type History struct {
	Module      Address // the module or provider that the history describes
	Owner       string
	Logo        string // of the system, or of the provider
	Source      string // the URL of the repository
	Downloads   int64
	Verified    bool
	Alias       string // Alias, Tier, Description and Warning are set for providers only: see [Summary]
	Tier        string
	Description string
	Warning     string         // for users of the provider
	Versions    []DatedVersion // unsorted; canonical versions, each once
	Answered
}

// DatedVersion is a version in a [History].
type DatedVersion struct {
	Version     string // canonical
	Published   time.Time
	Description string
	Tag         string
	Source      string
	Downloads   int64
}

// Downloads counts the downloads of a module.
type Downloads struct {
	Week, Month, Year, Total int64
	Versions                 map[string]int64 // the total of each canonical version; nil if not known
	Answered
}

// Query selects modules of one registry. An empty field selects all modules.
type Query struct {
	Host      string // required
	Namespace string
	Name      string // requires a Namespace
	Search    string // words of the module's description
	System    string
	Verified  bool // verified modules only
	Offset    int  // number of modules to skip
	Limit     int  // maximum number of modules; positive
}

// Page is a part of a list.
type Page struct {
	Modules []Summary
	More    bool // more modules follow, according to the registry's count
	Answered
}
