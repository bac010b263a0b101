// Package git brings the files of one revision of a git repository.
//
// Invariant: what a stranger wrote (an address, a ref, a tree, a .gitmodules file) is data. It chooses what is
// fetched from where the policy allows; it never becomes an option of a program, a setting of git, a command, or a
// file on this disk under a name of its choosing. There is never a work tree: git fetches into a bare repository
// that is made for one fetch and removed after it, and the files are read out of it as a stream.
//
// The files are those that git clone, git checkout and git submodule update --init --recursive leave in an empty
// directory on Linux with no configuration, without .git: line endings, $Id$ and working-tree encodings converted
// as .gitattributes says, nothing left out by export-ignore, Git LFS files as pointers. git holds in memory what it
// converts, so a file of more than 32 MiB that takes more than 256 MiB before or after that is an error.
//
// Over http and https this package asks servers itself, in protocol v2 (https://git-scm.com/docs/gitprotocol-v2): for
// a commit id once, for a name twice. git index-pack, which connects to nothing, takes the pack, holds every object to
// its id and to what git fsck wants, and every link between them to be whole. What is not answered so git fetches
// itself, through a forward proxy of this process, and so it does what comes by ssh.
//
// It needs git 2.31 or newer in PATH, and OpenSSH for ssh addresses.
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

// Getter is a [fetch.Getter] for git repositories. Fetches share nothing but what is known of
// servers. The caller bounds how many run at once.
type Getter struct {
	Dir         string // where each fetch makes directories of its own; the system's for temporary files if empty
	Network     Network
	CAFile      string // a PEM file of root certificates to trust beside the system's
	Credentials fetch.Credentials
	Limits      Limits

	unheard memory.Cache[string, struct{}] // origins and repositories that git itself has to ask
}

var _ fetch.Getter = (*Getter)(nil)

// Network is the way out: an [egress.Client].
type Network interface {
	// Check returns an error for an http or https URL that may not be asked.
	Check(ctx context.Context, u *url.URL) error
	// Post asks a server like [egress.Client.Post].
	Post(ctx context.Context, r egress.Request, body []byte) (*http.Response, error)
	// Resolve returns an address of an ssh host that may be connected to.
	Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error)
	// Session opens a forward proxy for one repository, which may receive maxBytes.
	Session(maxBytes int64) (*egress.Session, error)
}

// Limits bound one fetch, submodules included. A zero field stands for its default.
type Limits struct {
	Time       time.Duration // default 10 minutes
	CPU        time.Duration // processor time of one process of git, in whole seconds, not on Windows; default 5 minutes
	Received   int64         // bytes that come in, and bytes of a repository on disk; default 1 GiB
	Entries    int           // files, links and submodules of one tree; default 100,000
	Path       int           // bytes of one path of a tree; default 1024
	Paths      int           // bytes of all paths of one tree; default 16 MiB
	Content    int64         // bytes of the files of one tree, before conversion; default 1 GiB
	Submodules int           // repositories beside the first; default 64
	Depth      int           // submodules within submodules; default 8
}

func (l Limits) orDefault() Limits {
	return Limits{
		Time: cmp.Or(l.Time, 10*time.Minute), CPU: cmp.Or(l.CPU, 5*time.Minute),
		Received: cmp.Or(l.Received, 1<<30), Content: cmp.Or(l.Content, 1<<30),
		Entries: cmp.Or(l.Entries, 100_000), Path: cmp.Or(l.Path, 1024), Paths: cmp.Or(l.Paths, 16<<20),
		Submodules: cmp.Or(l.Submodules, 64), Depth: cmp.Or(l.Depth, 8),
	}
}

// tree takes the files of a revision; a *pack.Builder is one.
type tree interface {
	File(name string, executable bool, r io.Reader) error
	Link(name, target string) error // target is relative to the link's directory
}
