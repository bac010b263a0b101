// Package modproxy defines the types and interfaces that all parts of modproxy share.
//
// A [Registry] answers the three questions of a module registry: its versions, the location of a package, and
// the content of a package. Every layer of modproxy is a Registry that calls the Registry below it:
//
//	var reg modproxy.Registry = …                   // the client of an upstream registry
//	reg = &policy.Registry{Next: reg, Gate: gate}   // denies versions
//	reg = &auth.Registry{Next: reg}                 // hides modules that the client may not read
//	p, err := reg.Package(ctx, m.At("1.2.0"))
//
// An [Address] names a module or a provider, and a [Ref] one version of it. A [Package] is the content of a version, [Versions]
// is the list of all versions, and a [Record] is the content that the ledger records. A [Catalog] describes modules and
// providers to people and tools.
//
// Invariants:
//
//   - A layer names the Registry below it Next and never embeds it. If a method is missing, the layer does not compile, and no
//     request bypasses it.
//   - Every error of a Registry wraps a sentinel of this package, such as [ErrNotFound], or is the error of its context.
//   - The package imports the standard library only. Every other package may import it.
//
// The registry protocols specify what the methods return: see [Registry], [ParseVersions] and [ParseProviderVersions]. The
// suite in test/registrytest specifies the behaviour of every Registry.
package modproxy

import (
	"cmp"
	"context"
	"io"
	"time"
)

// Registry answers the three questions of the module registry protocol
// (https://developer.hashicorp.com/terraform/internals/module-registry-protocol
// and https://opentofu.org/docs/internals/module-registry-protocol/).
//
// Implementations are safe for concurrent use. The caller has checked the address with [Address.CheckAddress]. The version is
// canonical, as [Version.String] prints it. Every error wraps a sentinel of this package or the error of the context.
type Registry interface {
	// Versions lists the versions of m. The returned value is shared: callers must not change it.
	//
	// Errors: [ErrNotFound] if the module does not exist, [ErrDenied], [ErrUnavailable].
	Versions(ctx context.Context, m Address) (*Versions, error)

	// Location returns the location of the package of one version. It resolves and validates the location. A cache begins the
	// download, and may wait a few seconds for it, so that clients receive the reason if it fails.
	//
	// Errors: [ErrNotFound], [ErrInvalid] if modproxy cannot download from the location, [ErrDenied], [ErrUnavailable].
	Location(ctx context.Context, v Ref) (Location, error)

	// Package opens the package of one version. The caller must close it.
	//
	// Errors: those of Location, and [ErrChanged] if the content differs from the content that was first served.
	Package(ctx context.Context, v Ref) (*Package, error)
}

// Package is the content of one version. Packages of modules have the form that package pack specifies. The package of a
// provider for one platform is the zip archive of its registry. A new Package is open at its start. It is not safe for
// concurrent use.
type Package struct {
	Body
	Digest Digest        // the digest of the stored bytes
	Sum    Sum           // identifies the content, independent of the stored bytes
	Size   int64         // stored bytes
	Time   time.Time     // when the package was packed
	Source Source        // the origin of the content; may be zero
	Subdir string        // the module's directory in the package, as in the Subdir of a [Location]; never a glob pattern
	Notes  string        // for people, a few lines at most: parts of the source that the package, or some platforms, do not have
	Facts  ProviderFacts // zero for modules
	// Partial is nil, except if [AllowPartial] allows it and the download is in progress. The ProviderFacts are then not known. Reads
	// wait for bytes until the context of the request ends. The bytes are verified only if the documentation of a layer
	// promises it.
	Partial Partial
}

// Sender is an optional interface of the [Body] of a package that is a file. A writer, such as that of an HTTP server, can then
// let the operating system send the file.
type Sender interface {
	// SendTo writes the next n bytes, or all remaining bytes if they are fewer. It passes an [io.LimitedReader] of the file to
	// the [io.ReaderFrom] of w. If the file was changed in the meantime, SendTo does not write its end.
	SendTo(w io.Writer, n int64) (written int64, err error)
}

// Partial is a package whose download is in progress. When Complete has returned, the Package has its Facts. It is safe for
// concurrent use. The download has the context of the request that it answers. The request lasts until Complete returns.
type Partial interface {
	// Complete waits until the package is complete and verified, as a [Registry] verifies it before Package returns, and
	// returns its Facts. Its errors are those of Package.
	Complete(ctx context.Context) (ProviderFacts, error)
	// Open opens the package again, at its start, for another goroutine. The caller must close it. Reads wait for bytes until
	// ctx ends. The result stays readable after the Package with this Partial is closed.
	Open(ctx context.Context) (Body, error)
}

// Source is the origin of the content of a package.
type Source struct {
	URL string `json:"url,omitempty"` // without user information and query
	// Commit is the git commit, or the hexadecimal digits of the digest of the OCI manifest; empty for archives.
	Commit string `json:"commit,omitempty"`
	// Mirror is the URL of the mirror from which the content was downloaded in place of URL, in the form of URL. It is empty without one.
	Mirror string `json:"mirror,omitempty"`
}

// Fetched returns the URL from which the content was downloaded.
func (s Source) Fetched() string { return cmp.Or(s.Mirror, s.URL) }

// Is reports whether s and other name the same commit at the same URL. It ignores their mirrors.
func (s Source) Is(other Source) bool { return s.URL == other.URL && s.Commit == other.Commit }
