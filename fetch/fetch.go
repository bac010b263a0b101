// Package fetch downloads the files at a location.
//
// A [Table] has a [Getter] for each kind of location, by the name before the location's double colon, or by the scheme
// of its URL:
//
//	table := &fetch.Table{Getters: map[string]fetch.Getter{"git": git, "https": web}, Scratch: dir, Limits: limits}
//	p, err := table.Package(ctx, fetch.Source{Location: location, Module: module})
//
// The Table replaces locations by those of their [Mirrors], selects the getter, follows locations that lead to other locations, and
// packs the downloaded files. A new kind of location needs a new getter in the table. [modproxy.Record.Location] reads a recorded commit
// as one of git, or as the digest of an OCI manifest. Package nested rewrites the nested sources of every kind in the table.
//
// Invariants: a location is untrusted data. It determines which files are downloaded, within the limits of package
// egress. Only credentials that are configured for its origin and module are sent. A location that has a mirror is downloaded from the
// mirror only, within the limits and with the credentials for the mirror; a package has both URLs.
package fetch

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/pack"
)

// Getter downloads the files of locations of one kind, such as those of packages fetch/git and fetch/web. It is safe for concurrent use.
//
// Errors: [modproxy.ErrInvalid] if the location or content is refused or a limit is exceeded, [modproxy.ErrNotFound],
// [modproxy.ErrDenied], [modproxy.ErrUnavailable], and the cause of ctx if it ended. No error contains a secret.
type Getter interface {
	// Check returns an error if a fetch of s would certainly be refused. It makes no connection.
	Check(ctx context.Context, s Source) error

	// Commit returns the commit that s currently names, without a download. The result is empty if s has no commit or only
	// a download shows it.
	Commit(ctx context.Context, s Source) (string, error)

	// Fetch adds the files of s, from all directories and not only its subdirectory, to tree. After an error, tree may have
	// some of them.
	Fetch(ctx context.Context, s Source, tree *pack.Builder) (Result, error)
}

// Tagger is an optional interface of a [Getter] whose locations are in repositories with tags.
type Tagger interface {
	// Tags lists the tags of the repository of s whose names begin with one of prefixes, in order of their names. It ignores the
	// revision of s. Beyond its bounds it fails, and never truncates. Errors are those of a Getter; [modproxy.ErrNotFound] if the
	// repository does not exist.
	Tags(ctx context.Context, s Source, prefixes ...string) ([]Tag, error)

	// NamedTags returns those of the named tags that exist, with their commits, in any order. Errors are those of Tags. If the repository
	// does not exist, it may return an empty list instead.
	NamedTags(ctx context.Context, s Source, names ...string) ([]Tag, error)
}

// Tag is a tag of a repository. Its Name is untrusted text.
type Tag struct {
	Name string `json:"name"` // without refs/tags/
	// Commit is the commit that the tag names, also of an annotated tag if the server gives it. It is empty in lists of OCI registries,
	// which give it only for one tag.
	Commit string `json:"commit"`
}

// Source is a location to fetch from.
type Source struct {
	modproxy.Location
	Module modproxy.Address // the module whose package is at the location
	// Commit, if not empty, is fetched instead of the revision in the location. A location whose content has no commits, such as an
	// archive, is then refused with [modproxy.ErrInvalid].
	Commit string
	// NeedsSubdir makes [Table.Package] return [modproxy.ErrNotFound] for a package without a file in the location's subdirectory. Set it if
	// the location's source did not choose the subdirectory: a tag may be older than a module in its repository.
	NeedsSubdir bool

	// Direct is set if the URL is used unchanged and is an archive. The first bytes determine its format. Package upstream sets it if
	// the registry's answer has the field use_registry_credentials.
	Direct bool
	// Own has the registry's own credentials, if that field is true. Each is sent to its own origin only.
	Own []egress.Credential
	// Budget bounds the HTTP requests for one package. [Table.Package] sets it.
	Budget *egress.Budget
	// OnAnswer, unless nil, is called by [Table.Tags] and [Table.NamedTags] when an answer begins to arrive. It is not called if only
	// a program, such as git, receives the answer.
	OnAnswer func()

	// Mirrors replace further locations that a getter finds. The Table sets them.
	Mirrors Mirrors
	// Named is the location that the Location, which is at a mirror, replaces. It is zero without a mirror. The Table sets it.
	Named modproxy.Location
}

// Result is the result of fetching a location.
type Result struct {
	From modproxy.Source
	// Immutable reports that a commit or checksum in the location determines its content. A getter also sets it if it returns an error:
	// the Table then knows that a retry downloads the same content ([modproxy.PermanentContent]).
	Immutable bool
	// Next, unless nil, is another location that has the files. The Table fetches it instead, up to five times in a row. The
	// subdirectory of Next takes the place of the root of this location.
	Next *modproxy.Location
}

// Credential is the credential for packages from one host.
type Credential struct {
	Host     string        // host or host:port, as in a URL
	Username string        // for https
	Password egress.Secret // for https
	// For ssh, in OpenSSH's formats: a private key without a passphrase, and the keys of known hosts. Both are required.
	// modproxy does not connect to a host whose key is unknown.
	SSHKeyFile, KnownHostsFile string
	// Scope is the set of modules that may use the credential. A publisher chooses the locations of its modules, so without a Scope
	// (nil) the publisher of every module can make modproxy send the credential to its Host.
	Scope Scope
	// TokenHost, if not empty, is a second host that receives Username and Password: that of the token service of the OCI registry at Host.
	TokenHost string
}

// Basic returns the value of an Authorization header (RFC 7617).
func Basic(username, password string) egress.Secret {
	return egress.NewSecret("Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
}

// Scope is a set of modules.
type Scope interface {
	Covers(m modproxy.Address) bool
}

// Credentials has at most one credential for each host.
type Credentials []Credential

// For returns the credentials that may be used for m.
func (all Credentials) For(m modproxy.Address) Credentials {
	return slices.DeleteFunc(slices.Clone(all), func(c Credential) bool { return c.Scope != nil && !c.Scope.Covers(m) })
}

// Of returns the credential for host, or the zero Credential if none is configured for host. Call For first: Of does not check the scopes.
func (all Credentials) Of(host string) (shown Credential) {
	if i := slices.IndexFunc(all, func(c Credential) bool { return c.Host == host }); i >= 0 {
		shown = all[i]
	}
	return shown
}
