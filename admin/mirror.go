package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// Mirror asks for packages to be fetched, and kept.
type Mirror struct {
	Starts []closure.Start `json:"starts,omitempty"` // calls, or what is named, with all that is called in turn
	Locked []Locked        `json:"locked,omitempty"` // just these
	Choice                 // of the versions that Starts select
	// Providers asks for the providers, too: for their packages for Platforms, or those of a Start.
	Providers bool                `json:"providers,omitempty"`
	Platforms []modproxy.Platform `json:"platforms,omitempty"`
	Groups    []string            `json:"groups,omitempty"` // of the client that they are for
	// Content asks for the packages themselves, too, but for those of which the client has Have, or the directory, by the first
	// of its Hashes. Releases of providers are not sent.
	Content         bool              `json:"content,omitempty"`
	Have            []modproxy.Digest `json:"have,omitempty"`
	HaveDirectories []modproxy.Sum    `json:"have_directories,omitempty"`
}

// Wanted are versions of a module.
type Wanted struct {
	Module   string `json:"module"`
	Versions string `json:"versions,omitempty"` // a constraint; empty for any
}

// Locked is a version with what it must be.
type Locked struct {
	At string `json:"at,omitempty"` // where it is written, for messages
	Name
	Sum    modproxy.Sum `json:"sum"`
	Subdir string       `json:"subdir,omitempty"`
}

// MirrorLine is a part of the answer; one field is set.
type MirrorLine struct {
	Package  *MirroredPackage `json:"package,omitempty"`
	Bypass   *MirrorNote      `json:"bypass,omitempty"`  // what does not go through the proxy, or not as far as is known
	Problem  *MirrorNote      `json:"problem,omitempty"` // what is not kept, or not known
	Progress *Mirrored        `json:"progress,omitempty"`
	Data     []byte           `json:"data,omitempty"` // of the last Package, in order
}

// MirroredPackage is a package that is kept now.
type MirroredPackage struct {
	Name
	Size    int64           `json:"size_bytes"`
	Sum     modproxy.Sum    `json:"sum"`
	Digest  modproxy.Digest `json:"digest"`
	Hashes  modproxy.Hashes `json:"hashes,omitempty"` // of the package of a provider
	Subdir  string          `json:"subdir,omitempty"`
	Fetched bool            `json:"fetched"`        // it was not kept before
	Data    bool            `json:"data,omitempty"` // its bytes follow
}

// MirrorNote is something to know of a call.
type MirrorNote struct {
	Clients []tfconfig.Client `json:"clients,omitempty"` // whom it concerns; empty: whoever asks
	Chain   []string          `json:"chain,omitempty"`   // where the calls are that lead to it, outermost first
	Source  string            `json:"source,omitempty"`  // of the call, as far as it is known
	Text    string            `json:"text"`
	// Lacks is what fetches what is not kept, as an argument of "modproxy mirror". It is empty if nothing does.
	Lacks string `json:"lacks,omitempty"`
}

// String returns n in one line, with where it stands.
func (n *MirrorNote) String() string {
	s := n.Text
	if len(n.Chain) > 0 && !strings.Contains(s, n.Source) {
		s = n.Source + ": " + s
	}
	if last := len(n.Chain) - 1; last >= 0 {
		at := n.Chain[last]
		if last > 0 {
			at += " (called from " + n.Chain[0] + ")"
		}
		s = at + ": " + s
	}
	if len(n.Clients) == 1 && len(n.Chain) > 0 {
		s += " (" + string(n.Clients[0]) + ")"
	}
	return s
}

// Mirrored is how far a mirror has come.
type Mirrored struct {
	Asked    int     `json:"asked"`   // modules whose versions were asked for
	Fetched  int     `json:"fetched"` // packages
	Kept     int     `json:"kept"`    // packages that were kept before
	Bypasses int     `json:"bypasses"`
	Problems int     `json:"problems"`
	Left     int     `json:"left"`  // that is known to be left to do
	Bytes    int64   `json:"bytes"` // of what was fetched
	Seconds  float64 `json:"seconds"`
}

const (
	maxLocked   = 100_000
	mirrorTasks = 32          // under way at the same time; the cache and the registries have bounds of their own
	mirrorTick  = time.Second // between two lines of progress
)

var errOffline = fmt.Errorf("%w: offline, and nothing is fetched", modproxy.ErrUnavailable)

// mirror fetches what is wanted, as far as it can. What is kept is not fetched again, so a mirror that was ended goes on
// where it was.
func (s *Server) mirror(ctx context.Context, in Mirror, each func(MirrorLine)) (Mirrored, error) {
	if s.Upstreams == nil {
		return Mirrored{}, errOffline
	}
	ctx, registry := s.asOperator(ctx, s.Gate, in.Groups)
	return s.follow(ctx, registry, in, false, each)
}

// follow asks registry for what is wanted; with check, one that fetches nothing.
func (s *Server) follow(
	ctx context.Context, registry modproxy.Registry, in Mirror, check bool, each func(MirrorLine),
) (Mirrored, error) {
	if len(in.Locked) > maxLocked {
		return Mirrored{}, fmt.Errorf("%w: %d versions, and %d may be locked at a time", modproxy.ErrInvalid, len(in.Locked), maxLocked)
	}
	for _, s := range in.Starts {
		if tfconfig.DefaultHosts[s.Client] == "" {
			return Mirrored{}, fmt.Errorf("%w: client %.80q", modproxy.ErrInvalid, s.Client)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := newMirrorRun(s, registry, in, check)
	ended := make(chan error, 1)
	go func() { ended <- run.work(ctx) }()
	tick := time.NewTicker(mirrorTick)
	defer tick.Stop()
	for {
		select {
		case line := <-run.lines:
			each(line)
		case <-tick.C:
			so := run.progress()
			each(MirrorLine{Progress: &so})
		case err := <-ended:
			for _, line := range run.noted() {
				each(line)
			}
			return run.progress(), err
		}
	}
}
