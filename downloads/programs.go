package downloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// ProgramsKind is the kind of the record of installations by program. There is one record.
const ProgramsKind store.Kind = "programs"

var programsRef = store.Ref{Kind: ProgramsKind, Key: "installations"}

// programDays is the number of days for which an installation counts.
const programDays = 30

// programs are installations, by program and by date in UTC.
type programs map[string]map[string]int64

// countProgram counts an installation for the client of ctx, if it is Terraform or OpenTofu.
func (r *Registry) countProgram(ctx context.Context) {
	program, _, _ := strings.Cut(modproxy.AskerOf(ctx).Program, "/")
	if program != "Terraform" && program != "OpenTofu" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programs == nil {
		r.programs = map[string]int64{}
	}
	r.programs[program]++
}

// Programs returns the number of installations by Terraform and by OpenTofu in the last 30 days. The keys are the names in
// their User-Agent headers. The result includes installations that this process has not recorded yet. Errors:
// [modproxy.ErrUnavailable].
func (r *Registry) Programs(ctx context.Context) (map[string]int64, error) {
	r.recording.RLock()
	defer r.recording.RUnlock()
	all, _, err := r.loadPrograms(ctx)
	if err != nil {
		return nil, err
	}
	sums := r.waitingPrograms()
	for program, days := range all {
		for date, n := range days {
			if date >= dateOf(time.Now(), 1-programDays) {
				sums[program] += n
			}
		}
	}
	return sums, nil
}

// recordPrograms adds the unrecorded installations to the record.
func (r *Registry) recordPrograms(ctx context.Context) error {
	r.recording.Lock()
	defer r.recording.Unlock()
	more := r.waitingPrograms()
	if len(more) == 0 {
		return nil
	}
	for range maxTries {
		all, revision, err := r.loadPrograms(ctx)
		if err != nil {
			return err
		}
		text, err := json.Marshal(all.with(more, time.Now()))
		if err != nil {
			return err
		}
		_, err = r.Records.Put(ctx, store.Record{Ref: programsRef, Value: text, Revision: revision})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			r.forgetPrograms(more)
		}
		return err
	}
	return fmt.Errorf("%w: the record of programs changes all the time", modproxy.ErrUnavailable)
}

// with returns p with additional installations at a time, and without expired ones.
func (p programs) with(more map[string]int64, at time.Time) programs {
	all := programs{}
	for program, days := range p {
		all[program] = maps.Clone(days)
	}
	for program, n := range more {
		if all[program] == nil {
			all[program] = map[string]int64{}
		}
		all[program][dateOf(at, 0)] += n
	}
	first, last := dateOf(at, 1-programDays), dateOf(at, 1) // the clock of another process may be in the next day
	for _, days := range all {
		maps.DeleteFunc(days, func(date string, _ int64) bool { return date < first || date > last })
	}
	return all
}

func (r *Registry) waitingPrograms() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := map[string]int64{}
	maps.Copy(sums, r.programs)
	return sums
}

func (r *Registry) forgetPrograms(counted map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for program, n := range counted {
		if r.programs[program] -= n; r.programs[program] == 0 {
			delete(r.programs, program)
		}
	}
}

// loadPrograms returns the record of installations. A damaged record is treated as missing.
func (r *Registry) loadPrograms(ctx context.Context) (all programs, revision uint64, err error) {
	rec, err := r.Records.Get(ctx, programsRef)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrDamaged):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case json.Unmarshal(rec.Value, &all) != nil:
		return nil, rec.Revision, nil
	}
	return all, rec.Revision, nil
}
