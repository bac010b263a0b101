package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

// Recheck asks upstream, again and again, whether versions are still at the commit that is recorded, so that a moved tag
// is known before a package has to be fetched again. It asks about one version after the other, evenly over Every. One
// that is at another commit is fetched and compared, which keeps an observation if the content is another. Nothing is
// asked about what the gate refuses.
type Recheck struct {
	Registry     *Registry
	Gate         Gate
	Every        time.Duration // for all versions; zero: never
	FetchTimeout time.Duration // of one fetch
	Turns        Turns
}

// Turns bounds how much is fetched at once.
type Turns interface {
	// Turn waits for a turn to fetch for a module, until ctx ends. The fetch uses held, and the caller calls done after it.
	Turn(ctx context.Context, m modproxy.Address) (held context.Context, done func(), err error)
}

// Gate says what may be asked about.
type Gate interface {
	// Check returns an error if upstream may not be asked about a version: [modproxy.ErrDenied] if the version is refused.
	Check(ctx context.Context, v modproxy.Ref) error
}

const commitTimeout = time.Minute // of one question for a commit

// Run rechecks until ctx ends.
func (r *Recheck) Run(ctx context.Context) {
	if r.Every <= 0 || r.Registry.Next == nil {
		return
	}
	seen := map[modproxy.Ref]string{} // the commit at which a version was found last; empty for the recorded one
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

// records returns the records that count and have a commit.
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

// recheck compares one version with its record. It returns the other commit whose content is known now; seen was that.
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
	if r.Gate.Check(ctx, rec.Ref) != nil { // by now
		return seen
	}
	fetching, cancel := context.WithTimeout(held, r.FetchTimeout)
	defer cancel()
	p, err := r.Registry.Next.Package(fetching, rec.Ref)
	if err == nil {
		err = errors.Join(r.Registry.Compare(fetching, sighted(rec.Ref, p)), p.Close())
	}
	if err != nil && held.Err() != nil { // too little came while others waited
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.Cause(held))
	}
	if ctx.Err() == nil {
		r.Registry.observe(Event{Kind: Moved, Ref: rec.Ref, Record: rec, Commit: commit, Err: err})
	}
	if ctx.Err() != nil || errors.Is(err, modproxy.ErrUnavailable) { // it is not known what it has
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
