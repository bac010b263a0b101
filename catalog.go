package modproxy

import (
	"context"
	"time"
)

// Catalog describes the modules and providers of registries: a registry's own API
// (https://developer.hashicorp.com/terraform/registry/api-docs), beside the registry protocols. Clients install nothing because
// of its answers. The address of a provider is a [Address] without a System.
//
// Implementations are safe for concurrent use. What they are given was checked, as for [Registry]. Answers are shared: callers
// do not change them. Every error is a sentinel of this package or that of the context.
type Catalog interface {
	// Details describes one version of a module or a provider.
	//
	// Errors: [ErrNotFound] when the registry does not describe it, [ErrDenied], [ErrUnavailable].
	Details(ctx context.Context, v Ref) (*Details, error)

	// History tells when the versions of m were published. Errors are those of Details.
	History(ctx context.Context, m Address) (*History, error)

	// Downloads tells how often m was downloaded. Errors are those of Details.
	Downloads(ctx context.Context, m Address) (*Downloads, error)

	// List lists the modules of one registry that q selects, each with its latest version. Errors are those of Details.
	List(ctx context.Context, q Query) (*Page, error)

	// Text returns the text of the document of v, a version of a provider, that has this ID in its Details. Errors are those of
	// Details.
	Text(ctx context.Context, v Ref, id string) (*Text, error)
}

// Answered is when an answer was given, and by whom.
type Answered struct {
	Time  time.Time `json:"-"` // when the registry gave it, or it was made
	Hit   bool      `json:"-"` // it was kept, and not asked for now
	Stale bool      `json:"-"` // it is older than it should be
}

// Summary is one version of a module or a provider, as lists have it.
type Summary struct {
	Ref         `json:"-"`
	Owner       string    `json:"owner"`
	Logo        string    `json:"provider_logo_url"` // of the system, or of the provider
	Description string    `json:"description"`
	Source      string    `json:"source"` // the URL of the repository
	Tag         string    `json:"tag"`
	Published   time.Time `json:"published_at"` // zero if that is not known
	Downloads   int64     `json:"downloads"`
	Verified    bool      `json:"verified"`
	Alias       string    `json:"alias,omitempty"` // another name of a provider
	Tier        string    `json:"tier,omitempty"`  // of a provider, such as official, partner or community
}

// Details describes one version of a module or a provider. A module has no Docs; a provider has nothing else of its own.
type Details struct {
	Summary
	Root        Part         `json:"root"`
	Submodules  []Part       `json:"submodules"`
	Examples    []Part       `json:"examples"`
	Systems     []string     `json:"providers"`   // the other ones that modules of its name are for: sorted, each once
	Deprecation *Deprecation `json:"deprecation"` // nil for none
	Docs        []Doc        `json:"docs,omitempty"`
	Listed      string       `json:"-"` // the entity tag of the versions that the client may use, or empty
	Answered    `json:"-"`
}

// Doc is a document about one version of a provider, without its text.
type Doc struct {
	ID          string `json:"id"` // in its registry: a number, or a path such as resources/gate
	Title       string `json:"title"`
	Path        string `json:"path"` // in the repository
	Slug        string `json:"slug"` // the last segment of its address
	Category    string `json:"category"`
	Subcategory string `json:"subcategory"`
	Language    string `json:"language"`
	Description string `json:"description,omitempty"`
	Link        string `json:"link,omitempty"` // the URL of its source
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
	Empty     bool          `json:"empty"`  // it has no configuration
	Inputs    []Input       `json:"inputs"`
	Outputs   []Output      `json:"outputs"`
	Calls     []PartCall    `json:"dependencies"` // of modules outside of the package
	Providers []PartNeed    `json:"provider_dependencies"`
	Resources []PartManaged `json:"resources"` // no data sources
}

// Input is a variable.
type Input struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // an expression; "any" if nothing is said
	Description string `json:"description"`
	Default     string `json:"default"` // the value as JSON text; empty if there is none
	Required    bool   `json:"required"`
}

// Output is an output.
type Output struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// PartCall is a call of a module.
type PartCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version"` // the constraint; empty for any
}

// PartNeed is a provider that is required.
type PartNeed struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Version   string `json:"version"` // the constraint; empty for any
}

// PartManaged is a resource that is managed.
type PartManaged struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Deprecation says why a version should not be used any more.
type Deprecation struct {
	Reason string `json:"reason"`
	Link   string `json:"link"`
}

// History tells about all versions of a module or a provider. What a registry does not say is zero.
type History struct {
	Module      Address // which it is about
	Owner       string
	Logo        string // of the system, or of the provider
	Source      string // the URL of the repository
	Downloads   int64
	Verified    bool
	Alias       string         // these four are of a provider: see [Summary]
	Tier        string         //
	Description string         //
	Warning     string         // for its users
	Versions    []DatedVersion // in no order; canonical versions, each once
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
	Versions                 map[string]int64 // the total of each, by canonical version; nil if that is not known
	Answered
}

// Query selects modules of one registry. Fields that are empty select all.
type Query struct {
	Host      string // required
	Namespace string
	Name      string // with a Namespace only
	Search    string // words that describe the module
	System    string
	Verified  bool // only verified ones
	Offset    int  // how many to leave out
	Limit     int  // how many to list at most; positive
}

// Page is a part of a list.
type Page struct {
	Modules []Summary
	More    bool // there are more behind it, by the registry's count
	Answered
}
