// Package modproxy is the vocabulary of a module proxy: what a module address, a version, a location and a package are,
// and the three questions that a module registry answers.
//
// Every layer of modproxy is a [Registry] made from a Registry: the client that asks an upstream, the cache that keeps its
// answers, the rewriter whose locations point back at the proxy. A layer names the registry below it Next and never embeds
// it, so that a question it does not know fails to compile instead of slipping past it.
//
// The package imports the standard library only. Every other package may import it.
package modproxy

import (
	"context"
	"io"
	"time"
)

// Registry answers the three questions of the module registry protocol
// (https://developer.hashicorp.com/terraform/internals/module-registry-protocol
// and https://opentofu.org/docs/internals/module-registry-protocol/).
//
// Implementations are safe for concurrent use. The module they are given was checked with [Address.Check], and the version
// is canonical, as [Version.String] prints it. Every error is a sentinel of this package or that of the context.
type Registry interface {
	// Versions lists the versions of m. The answer is shared: callers do not change it.
	//
	// Errors: [ErrNotFound] when there is no such module, [ErrDenied], [ErrUnavailable].
	Versions(ctx context.Context, m Address) (*Versions, error)

	// Location returns where the package of one version is. It resolves and validates, and does not wait for a fetch.
	//
	// Errors: [ErrNotFound], [ErrInvalid] when the location cannot be fetched, [ErrDenied], [ErrUnavailable].
	Location(ctx context.Context, v Ref) (Location, error)

	// Package opens what one version contains. The caller closes it.
	//
	// Errors: those of Location, and [ErrChanged] when the content is not what it was when the version was first served.
	Package(ctx context.Context, v Ref) (*Package, error)
}

// Package is the package of one version. The package of a module has the form that package pack defines; the package of a
// provider for one platform is the zip archive from its registry. The caller reads it from one goroutine and closes it.
type Package struct {
	Body             // opened at its start
	Digest Digest    // names the stored bytes
	Sum    Sum       // names the content, whatever bytes it is stored in
	Size   int64     // stored bytes
	Time   time.Time // when the package was packed
	Source Source    // where the content came from; may be zero
	Subdir string    // the module's directory in it, as in the Subdir of a [Location]; never a pattern
	Notes  string    // for people, a few lines at most: what of the source is not in it, or not everywhere
	Facts  Facts     // of a provider
	// Arrival is nil, but where [WithArrival] asks for the package and it still comes: its Facts are not known. Reads wait for
	// bytes, until the context of the question ends. What they give is not verified, unless a layer says so.
	Arrival Arrival
}

// Sender is what a [Package] that is a file may be, too: it gives it to a writer that can have the system send files, such as
// that of an HTTP server.
type Sender interface {
	// SendTo writes the next n bytes, or those that there are. What it hands to a [io.ReaderFrom] is a [io.LimitedReader]
	// of the file. Of a file that was changed meanwhile it does not write the end.
	SendTo(w io.Writer, n int64) (written int64, err error)
}

// Arrival is a package that still comes. Its Facts are there when Arrived has returned, in the Package that was. It is safe for
// concurrent use. The fetch that brings it has the context of the question that it answers, which goes on until Arrived returns.
type Arrival interface {
	// Arrived waits until all of the package is there and was verified, as for [Registry] before Package returns, and returns
	// its Facts. Errors are those of Package.
	Arrived(ctx context.Context) (Facts, error)
	// Open opens the package once more, at its start, for another goroutine; the caller closes it. Reads wait for bytes until
	// ctx ends. What is open can be read when the package that came was closed.
	Open(ctx context.Context) (Body, error)
}

// Source is where the content of a package came from.
type Source struct {
	URL    string `json:"url,omitempty"`    // without user information and query
	Commit string `json:"commit,omitempty"` // the git commit; empty for archives
}
