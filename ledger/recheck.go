package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

// Recheck periodically asks upstream whether versions are still at their recorded commits, so that a moved tag is known before
// a package must be downloaded again. It checks one version after the other, evenly spread over Every. If a version is at
// another commit, Recheck downloads and compares it; other content is recorded as an observation. Versions that the gate denies
// are not checked.
type Recheck struct {
	Registry     *Registry
	Gate         Gate
	Every        time.Duration // for a full round over all versions; zero disables rechecking
	FetchTimeout time.Duration // of one download
	Turns        Turns
}

// Turns limits concurrent downloads.
type Turns interface {
	// Turn waits for a download slot for a module, until ctx ends. The caller downloads with the context held, and calls done
	// afterwards.
	Turn(ctx context.Context, m modproxy.Address) (held context.Context, done func(), err error)
}

// Gate decides which versions may be checked.
type Gate interface {
	// Check returns an error if upstream may not be asked about a version: [modproxy.ErrDenied] if the policy denies the
	// version.
	Check(ctx context.Context, v modproxy.Ref) error
}

const commitTimeout = time.Minute // of one request for a commit

// Run rechecks until ctx ends.
func (r *Recheck) Run(ctx context.Context) {
	if r.Every <= 0 || r.Registry.Next == nil {
		return
	}
	seen := map[modproxy.Ref]string{} // the last other commit of each version; empty: the recorded one
	for ctx.Err() == nil {
		records := r.records(ctx)
		pause := r.Every / time.Duration(len(records)+1)
		sleep(ctx, pause)
		for v, rec := range records {
			if ctx.Err() == nil {
				seen[v] = r.recheck(ctx, rec, seen[v])
				sleep(ctx, pause)
			}
		}
	}
}

// records returns the last record of each version that has a commit.
func (r *Recheck) records(ctx context.Context) map[modproxy.Ref]Record {
	records := map[modproxy.Ref]Record{}
	for rec, err := range r.Registry.Ledger.All(ctx) {
		if err != nil {
			r.Registry.observe(Event{Kind: Failed, Err: err})
			break
		}
		delete(records, rec.Ref)
		if rec.Source.Commit != "" {
			records[rec.Ref] = rec
		}
	}
	return records
}

// recheck compares one version with its record. It returns the other commit that was compared, or an empty string if the
// version is at its recorded commit. seen is the previous result: that commit is not compared again.
func (r *Recheck) recheck(ctx context.Context, rec Record, seen string) string {
	asking, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	commit, err := "", r.Gate.Check(asking, rec.Ref)
	if errors.Is(err, modproxy.ErrDenied) {
		return seen
	}
	if err == nil {
		commit, err = r.Registry.Next.Commit(asking, rec.Ref)
	}
	if err == nil && (commit == "" || commit == rec.Source.Commit) {
		return ""
	}
	if ctx.Err() != nil || err == nil && commit == seen {
		return seen
	}
	var held context.Context
	var done func()
	if err == nil {
		held, done, err = r.Turns.Turn(ctx, rec.Address)
	}
	if err != nil {
		r.Registry.observe(Event{Kind: Unasked, Ref: rec.Ref, Err: err})
		return seen
	}
	defer done()
	if r.Gate.Check(ctx, rec.Ref) != nil { // the policy may have changed while Turn waited
		return seen
	}
	fetching, cancel := context.WithTimeout(held, r.FetchTimeout)
	defer cancel()
	p, err := r.Registry.Next.Package(fetching, rec.Ref)
	if err == nil {
		err = errors.Join(r.Registry.Compare(fetching, newRecord(rec.Ref, p)), p.Close())
	}
	if err != nil && held.Err() != nil { // Turns stopped the download: it was too slow while others waited
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.Cause(held))
	}
	if ctx.Err() == nil {
		r.Registry.observe(Event{Kind: Moved, Ref: rec.Ref, Record: rec, Commit: commit, Err: err})
	}
	if ctx.Err() != nil || errors.Is(err, modproxy.ErrUnavailable) { // the content at that commit is unknown
		return seen
	}
	return commit
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
