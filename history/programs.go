package history

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
)

// ProgramsKind is the kind of the record of installations by program. There is one record.
const ProgramsKind store.Kind = "programs"

const programsKey = "installations"

// programDays is the number of days for which an installation counts.
const programDays = 30

// programs are installations, by program and by date in UTC.
type programs map[string]map[string]int64

// countProgram counts an installation for the client of ctx, if it is Terraform or OpenTofu.
func (d *Downloads) countProgram(ctx context.Context) {
	program, _, _ := strings.Cut(modproxy.ClientOf(ctx).Program, "/")
	if program != "Terraform" && program != "OpenTofu" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installs[program]++
}

// Programs returns the number of installations by Terraform and by OpenTofu in the last 30 days. The keys are the names in
// their User-Agent headers. The result includes installations that this process has not recorded yet. Errors:
// [modproxy.ErrUnavailable].
func (d *Downloads) Programs(ctx context.Context) (map[string]int64, error) {
	d.recording.RLock()
	defer d.recording.RUnlock()
	row, err := d.programs.Get(ctx, programsKey)
	if err != nil {
		return nil, err
	}
	sums := d.waitingPrograms()
	for program, days := range row.Value {
		for date, n := range days {
			if date >= dateOf(time.Now(), 1-programDays) {
				sums[program] += n
			}
		}
	}
	return sums, nil
}

// recordPrograms adds the unrecorded installations to the record.
func (d *Downloads) recordPrograms(ctx context.Context) error {
	d.recording.Lock()
	defer d.recording.Unlock()
	more := d.waitingPrograms()
	if len(more) == 0 {
		return nil
	}
	stored, err := d.programs.Update(ctx, programsKey, func(row *store.Row[programs]) { row.Value = row.Value.with(more, time.Now()) })
	if stored {
		d.forgetPrograms(more)
	}
	return err
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

func (d *Downloads) waitingPrograms() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sums := map[string]int64{}
	maps.Copy(sums, d.installs)
	return sums
}

func (d *Downloads) forgetPrograms(counted map[string]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for program, n := range counted {
		if d.installs[program] -= n; d.installs[program] == 0 {
			delete(d.installs, program)
		}
	}
}
