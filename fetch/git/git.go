// Package git downloads the files of one revision of a git repository.
//
// A [Getter] is a [fetch.Getter] for a [fetch.Table]. Call [Installed] at the start of the program.
//
//	g := &git.Getter{Dir: dir, Network: egress, Credentials: credentials}
//	result, err := g.Fetch(ctx, source, tree)
//
// Invariants: untrusted input (an address, a ref, a tree, a .gitmodules file) is data. It determines which files are
// downloaded, within [Limits] and the policy of package egress. It never becomes an option of a program, a setting of git, a command, or
// the name of a file on this disk. No work tree exists: git fetches into a bare repository that is made for one fetch
// and removed after it, and the files are read from it as a stream.
//
// On Linux, without configuration of git, git clone, git checkout and git submodule update --init --recursive produce the same files in
// an empty directory; only .git is left out. Line endings, $Id$ and working-tree encodings are converted
// according to .gitattributes. export-ignore omits nothing, and Git LFS files remain pointers. git converts files in
// memory, so a file of more than 32 MiB that takes more than 256 MiB before or after conversion is an error.
//
// Over http and https this package itself sends requests, in protocol v2 (https://git-scm.com/docs/gitprotocol-v2): one
// for a commit id, two for a name. Its own requests halve the round trips of git. git index-pack, which makes no
// connection, receives the pack. It checks the id of every object, the rules of git fsck, and that no linked object is
// missing. If a server does not answer such requests, git itself fetches, through a forward proxy of this process
// ([Network.Session]). Over ssh, git itself fetches from the address that [Network.Resolve] returned.
//
// The package needs git 2.31 or newer in PATH, and OpenSSH for ssh addresses.
package git

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/internal/memory"
)

// Getter is a [fetch.Getter] for git repositories. It is safe for concurrent use. It remembers only which servers do not answer
// requests of this package in protocol v2, for a bounded number of servers. The caller bounds the number of concurrent fetches.
type Getter struct {
	Dir         string // where each fetch makes its own directories; if empty, the system's directory for temporary files
	Network     Network
	CAFile      string // a PEM file of additional trusted root certificates
	Credentials fetch.Credentials
	Limits      Limits

	unheard memory.Cache[string, struct{}] // origins and repositories that do not answer this package's own requests
}

var _ fetch.Getter = (*Getter)(nil)

// Network makes the connections. [egress.Client] implements it.
type Network interface {
	// Check returns an error for an http or https URL that must not be requested.
	Check(ctx context.Context, u *url.URL) error
	// Get sends a request like [egress.Client.Get].
	Get(ctx context.Context, r egress.Request) (*http.Response, error)
	// Post sends a request like [egress.Client.Post].
	Post(ctx context.Context, r egress.Request, body []byte) (*http.Response, error)
	// Resolve returns an address of an ssh host to which a connection is allowed.
	Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error)
	// Session opens a forward proxy for one repository, which receives at most maxBytes.
	Session(maxBytes int64) (*egress.Session, error)
}

// Limits bounds one fetch, including submodules. A zero field means its default.
type Limits struct {
	Time       time.Duration // default 10 minutes
	CPU        time.Duration // processor time of one git process, in whole seconds, not on Windows; default 5 minutes
	Received   int64         // bytes received, and bytes of a repository on disk; default 1 GiB
	Entries    int           // files, links and submodules of one tree; default 100,000
	Path       int           // bytes of one path of a tree; default 1024
	Paths      int           // bytes of all paths of one tree; default 16 MiB
	Content    int64         // bytes of the files of one tree, before conversion; default 1 GiB
	Submodules int           // repositories in addition to the first; default 64
	Depth      int           // nesting of submodules; default 8
}

func (l Limits) orDefault() Limits {
	return Limits{
		Time: cmp.Or(l.Time, 10*time.Minute), CPU: cmp.Or(l.CPU, 5*time.Minute),
		Received: cmp.Or(l.Received, 1<<30), Content: cmp.Or(l.Content, 1<<30),
		Entries: cmp.Or(l.Entries, 100_000), Path: cmp.Or(l.Path, 1024), Paths: cmp.Or(l.Paths, 16<<20),
		Submodules: cmp.Or(l.Submodules, 64), Depth: cmp.Or(l.Depth, 8),
	}
}

// tree receives the files of a revision. *pack.Builder implements it.
type tree interface {
	File(name string, executable bool, r io.Reader) error
	Link(name, target string) error // target is relative to the link's directory
}
