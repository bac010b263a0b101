// Package git brings the files of one revision of a git repository.
//
// Invariant: what a stranger wrote (an address, a ref, a tree, a .gitmodules
// file) is data. It chooses what is fetched from where the policy allows; it
// never becomes an option of a program, a setting of git, a command, or a file
// on this disk under a name of its choosing. There is never a work tree: git
// fetches into a bare repository that is made for one fetch and removed after
// it, and the files are read out of it as a stream.
//
// The files are those that git clone, git checkout and git submodule update
// --init --recursive leave in an empty directory on Linux with no configuration,
// without .git: line endings, $Id$ and working-tree encodings converted as
// .gitattributes says, nothing left out by export-ignore, Git LFS files as
// pointers. git holds in memory what it converts, so a file of more than 32 MiB that
// takes more than 256 MiB before or after that is an error.
//
// It needs git 2.31 or newer in PATH, and OpenSSH for ssh addresses.
package git

import (
	"context"
	"io"
	"net/netip"
	"net/url"
	"time"

	"github.com/modproxy/modproxy/egress"
)

// Fetcher fetches revisions. It is safe for concurrent use once its fields are
// set; fetches share nothing. How many run at once is for the caller to bound.
type Fetcher struct {
	// Dir is where each fetch makes a directory of its own, which it removes;
	// the system's temporary directory if empty.
	Dir string
	// Tunnel opens the way out for git over HTTP: a forward proxy that is used
	// for one repository and may receive maxBytes. If nil git connects by itself.
	Tunnel func(maxBytes int64) (Session, error)
	// Allow is asked before anything is started for an http or https URL; see
	// [egress.Client.Check]. If nil, https is allowed and http is not.
	Allow func(ctx context.Context, u *url.URL) error
	// CAFile names a PEM file of root certificates to trust beside the system's.
	CAFile string
	// Credential is what the origin "https://host" or "https://host:port", and no
	// other, is shown when it asks. May be nil.
	Credential func(origin string) (username string, password egress.Secret, ok bool)
	// SSH is the identity to show to a host; without one ssh addresses of that
	// host are refused. May be nil.
	SSH func(host string) (SSHIdentity, bool)
	// Resolve is an address of an ssh host that may be connected to; see
	// [egress.Client.Resolve]. If nil ssh addresses are refused.
	Resolve func(ctx context.Context, host string, port int) (netip.AddrPort, error)

	Limits Limits
}

// Session is one use of a forward proxy; see [egress.Session].
type Session interface {
	URL() string     // for http.proxy; secret
	Refused() error  // why a connection was not made or was cut, if one was
	Received() int64 // bytes
	Close() error
}

// SSHIdentity names the files, in OpenSSH's formats, with which one host is
// visited. Both are needed: a host whose key is not known is not visited.
type SSHIdentity struct {
	KeyFile        string // the private key, without a passphrase
	KnownHostsFile string
}

// Limits bound one fetch, submodules included. A zero field stands for its default.
type Limits struct {
	Time       time.Duration // default 10 minutes
	Received   int64         // bytes that come in, and bytes of a repository on disk; default 1 GiB
	Entries    int           // files, links and submodules of one tree; default 100,000
	Path       int           // bytes of one path of a tree; default 1024
	Paths      int           // bytes of all paths of one tree; default 16 MiB
	Content    int64         // bytes of the files of one tree, before conversion; default 1 GiB
	Submodules int           // repositories beside the first; default 64
	Depth      int           // submodules within submodules; default 8
}

// Tree takes the files of a revision; a *pack.Builder is one.
type Tree interface {
	// File adds a regular file.
	File(name string, executable bool, r io.Reader) error
	// Link adds a symbolic link; target is relative to the link's directory.
	Link(name, target string) error
}
