package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
)

const (
	datesAfter    = time.Hour        // interval between requests for missing dates
	datesPause    = time.Minute      // interval after a failure
	datesWithin   = 10 * time.Second // timeout of Published and of one PublishedOf
	datesPatience = 2 * time.Second  // how long a client's request waits for dates
	datesEnd      = time.Hour        // timeout of all versions of one module
	datesAtOnce   = 4                // concurrent requests for versions of one module
	datesBatch    = 16               // dates in one write to the record
	datesFailures = 3                // consecutive failures before modproxy stops asking the registry for datesPause

	maxDating   = 1024 // modules whose dates are being requested
	maxDatingOf = 64   // maximum of one client
)

// firstDate is earlier than all dates of modules: Terraform was released on this day. An earlier date means no date.
var firstDate = time.Date(2014, time.July, 28, 0, 0, 0, 0, time.UTC)

// dating is the work that requests the dates of one module's versions.
type dating struct {
	ctx   context.Context // in the background, until an operator waits for the dates
	begun chan struct{}   // closed when Published has returned
	done  chan struct{}
}

// Of returns the first-seen times and dates of the versions of m. If dates are missing, Of requests them from the
// registry of m.
//
// If the registry was never asked for the date of a version, Of waits for up to two seconds. It is asked for other missing
// dates at most once an hour, and Of does not wait for them. Dates that arrive later count afterwards.
//
// Some registries must be asked for each version. These requests are in the background, the newest version first:
// [modproxy.FirstSeen.Pending] has the remaining versions. If the registry answers that a version has no date, it is never asked
// for this version again. The version of [modproxy.WithDateOf] comes before the others. Without such a version,
// [modproxy.WithDates] makes Of wait for all dates, for up to an hour.
//
// Errors: [modproxy.ErrUnavailable], if the record cannot be read, or ctx ends before the wait. If a request to a registry fails,
// Of returns no error: it calls FirstSeenConfig.Observe with it, and the dates stay missing.
func (f *FirstSeen) Of(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error) {
	s, err := f.read(ctx, m)
	if err != nil || f.config.Dates == nil {
		return s, err
	}
	asks, waits := f.wantsDates(m, s)
	d := f.dating(ctx, m, asks)
	if d == nil {
		if asks { // later: the client has enough work in progress
			s.Pending = pending(m, s)
		}
		return s, nil
	}
	version, now := modproxy.DateOf(ctx), modproxy.NeedsDates(ctx)
	switch {
	case now && version == "":
		modproxy.BringForward(d.ctx)
		err = await(ctx, d.done, datesEnd)
	case now:
		err = await(ctx, d.begun, datesWithin)
	case waits:
		err = await(ctx, d.begun, datesPatience)
	}
	if err == nil {
		s, err = f.read(ctx, m)
	}
	if err == nil && version != "" && d.goesOn() && pending(m, s)[version] {
		if err = f.dateOne(ctx, m.At(version), now); err == nil {
			s, err = f.read(ctx, m)
		}
	}
	if err == nil && d.goesOn() {
		s.Pending = pending(m, s)
	}
	return s, err
}

func (d *dating) goesOn() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// await waits until closed is closed, but no longer than limit. It returns an error if ctx ends.
func await(ctx context.Context, closed <-chan struct{}, limit time.Duration) error {
	select {
	case <-closed:
	case <-time.After(limit):
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
	}
	return nil
}

// dating returns the work for m that is in progress, or starts it if wanted. It returns nil if no work is in progress and
// none is wanted, or if too much work is in progress.
func (f *FirstSeen) dating(ctx context.Context, m modproxy.Address, wanted bool) *dating {
	key, client := m.Folded(), modproxy.ClientOf(ctx).Name
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.datings[key]; d != nil || !wanted {
		return d
	}
	if f.ending.Err() != nil || len(f.datings) >= maxDating || client != "" && f.datingsOf[client] >= maxDatingOf {
		return nil
	}
	d := &dating{
		ctx: modproxy.InBackground(context.WithoutCancel(ctx)), begun: make(chan struct{}), done: make(chan struct{}),
	}
	f.datings[key] = d
	f.datingsOf[client]++
	f.work.Go(func() {
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.datings, key)
			if f.datingsOf[client]--; f.datingsOf[client] == 0 {
				delete(f.datingsOf, client)
			}
			close(d.done)
		}()
		ctx, cancel := context.WithTimeout(d.ctx, datesEnd)
		defer cancel()
		defer context.AfterFunc(f.ending, cancel)()
		if err := f.date(ctx, m, d); err != nil && f.ending.Err() == nil {
			f.failed.Add(key, struct{}{}, datesPause, 0)
			f.observe(m, err)
		}
	})
	return d
}

// Close ends all requests for dates, and waits until they have ended. Of works afterwards, without requests.
func (f *FirstSeen) Close() {
	f.mu.Lock()
	f.end()
	f.mu.Unlock()
	f.work.Wait()
}

// wantsDates reports whether a version has no date and it is time to request one. waits reports whether the registry was
// never asked about such a version.
func (f *FirstSeen) wantsDates(m modproxy.Address, s modproxy.FirstSeen) (asks, waits bool) {
	if _, failed := f.failed.Get(m.Folded()); failed {
		return false, false
	}
	since := time.Since(s.Dated)
	again := since >= datesAfter || since < 0 // the clock was ahead
	for name, v := range s.Versions {
		switch {
		case !takesDate(m, v) || s.Dateless[name]:
		case s.Dated.IsZero() || v.Seen.After(s.Dated):
			return true, true
		default:
			asks = again
		}
	}
	return asks, false
}

// date records the dates from the registry of m, and the time of the request.
func (f *FirstSeen) date(ctx context.Context, m modproxy.Address, d *dating) (err error) {
	begun := sync.OnceFunc(func() { close(d.begun) })
	defer begun()
	defer func() {
		if p := recover(); p != nil {
			err = modproxy.Fault(p)
		}
	}()
	s, err := f.read(ctx, m)
	if err != nil {
		return err
	}
	began := time.Now().UTC()
	soon, cancel := context.WithTimeout(ctx, datesWithin)
	defer cancel()
	dates, rest, err := f.config.Dates.Published(soon, m, undated(m, s))
	complete := began
	if err != nil || len(rest) > 0 {
		complete = time.Time{}
	}
	err = errors.Join(err, f.enter(m, dates, complete))
	begun()
	if err != nil || len(rest) == 0 {
		return err
	}
	return f.dateRest(ctx, m, rest, began)
}

// dateRest requests the dates of versions one by one. It returns an error after datesFailures consecutive failures. A failed
// version is requested again with the versions that are left, at the next request for the registry's dates.
func (f *FirstSeen) dateRest(ctx context.Context, m modproxy.Address, versions []string, began time.Time) error {
	var mu sync.Mutex
	var failures int
	dates := map[string]time.Time{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(datesAtOnce)
	for _, version := range versions {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if s, err := f.read(ctx, m); err == nil && !pending(m, s)[version] {
				return nil // dateOne has requested it
			}
			at, err := f.publishedOf(ctx, m.At(version))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if failures++; failures < datesFailures {
					err = nil
				}
				return err
			}
			failures = 0
			if dates[version] = at; len(dates) < datesBatch {
				return nil
			}
			batch := dates
			dates = map[string]time.Time{}
			return f.enter(m, batch, time.Time{})
		})
	}
	err := g.Wait()
	complete := began
	if err != nil {
		complete = time.Time{}
	}
	return errors.Join(err, f.enter(m, dates, complete))
}

// publishedOf requests the date of one version. It returns a panic as an error.
func (f *FirstSeen) publishedOf(ctx context.Context, v modproxy.Ref) (at time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = modproxy.Fault(p)
		}
	}()
	return f.config.Dates.PublishedOf(ctx, v)
}

// dateOne requests the date of one version before those of others. If now is set, the request is not in the background.
func (f *FirstSeen) dateOne(ctx context.Context, v modproxy.Ref, now bool) error {
	patience := datesPatience
	if now {
		patience = datesWithin
	}
	done := make(chan struct{})
	f.mu.Lock()
	ended := f.ending.Err() != nil
	if !ended {
		f.work.Go(func() {
			defer close(done)
			f.one.Do(v.Folded().String(), func() (any, error) {
				asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), datesWithin)
				defer cancel()
				defer context.AfterFunc(f.ending, cancel)()
				if !now {
					asking = modproxy.InBackground(asking)
				}
				at, err := f.publishedOf(asking, v)
				if err == nil {
					err = f.enter(v.Address, map[string]time.Time{v.Version: at}, time.Time{})
				}
				if err != nil && f.ending.Err() == nil {
					f.observe(v.Address, err)
				}
				return nil, nil
			})
		})
	}
	f.mu.Unlock()
	if ended {
		return nil
	}
	return await(ctx, done, patience)
}

// enter records dates. A zero date means that the version has none. complete is when all dates were requested, or zero.
func (f *FirstSeen) enter(m modproxy.Address, dates map[string]time.Time, complete time.Time) error {
	if len(dates) == 0 && complete.IsZero() {
		return nil
	}
	now := time.Now().UTC()
	return f.change(context.Background(), m, func(s *modproxy.FirstSeen) {
		if !complete.IsZero() {
			s.Dated = complete
		}
		for name, at := range dates {
			v, ok := s.Versions[name]
			switch {
			case !ok || !takesDate(m, v):
			case at.IsZero():
				if s.Dateless == nil {
					s.Dateless = map[string]bool{}
				}
				s.Dateless[name] = true
			case !at.Before(firstDate):
				if v.Published = at.UTC(); at.After(now) {
					v.Published = now
				}
				s.Versions[name] = v
			}
		}
	})
}

// takesDate reports whether a date from the registry counts for a version of m. The date of a provider comes from its signer.
// The signer may lie: the date counts for versions that were listed when the provider was first seen, and not for versions
// that appeared later.
func takesDate(m modproxy.Address, v modproxy.VersionDates) bool {
	switch m.Kind() {
	case modproxy.Provider:
		return v.Published.IsZero() && v.Seen.IsZero()
	case modproxy.Module:
	}
	return v.Published.IsZero()
}

// undated returns the versions that need a date, the newest first.
func undated(m modproxy.Address, s modproxy.FirstSeen) (names []string) {
	var list []modproxy.Version
	for name, v := range s.Versions {
		if version, err := modproxy.ParseVersion(name); err == nil && takesDate(m, v) && !s.Dateless[name] {
			list = append(list, version)
		}
	}
	slices.SortFunc(list, func(a, b modproxy.Version) int { return b.Compare(a) })
	for _, v := range list {
		names = append(names, v.String())
	}
	return names
}

// pending returns the versions that undated returns.
func pending(m modproxy.Address, s modproxy.FirstSeen) map[string]bool {
	all := map[string]bool{}
	for name, v := range s.Versions {
		if takesDate(m, v) && !s.Dateless[name] {
			all[name] = true
		}
	}
	return all
}
