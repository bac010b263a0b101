package ledger

import (
	"context"
	"slices"

	"github.com/modproxy/modproxy"
)

// Some registries fold the case of addresses, and others do not. A ledger has a record of each spelling that was requested. All
// spellings of an address have the content of one of these records: the one that was accepted last, or else the first one.
// Ledgers of earlier versions of modproxy may have records with other content; these do not count, and are listed as drift.

// spellings returns the versions of an address that have records.
func (x *index) spellings(address id) (all []id) {
	if _, ok := x.latestAt[address]; ok {
		all = append(all, address)
	}
	return append(all, x.others[address]...)
}

// counting returns the record that counts for an address, and the version of that record.
func (x *index) counting(address id) (p latestRecord, version id, ok bool) {
	if len(x.others[address]) == 0 {
		p, ok = x.latestOf(address)
		return p, address, ok
	}
	for i, v := range x.spellings(address) {
		this, _ := x.latestOf(v)
		switch accepted, before := len(x.before[v]) > 0, len(x.before[version]) > 0; {
		case i == 0, accepted && !before, accepted == before && (this.number > p.number) == accepted:
			p, version, ok = this, v, true
		}
	}
	return p, version, ok
}

// current returns the record that counts for a version. own reports whether it is the version's own record: it is if that
// record agrees with the one that counts for the address.
func (x *index) current(version, address id) (p latestRecord, own, ok bool) {
	p, _, ok = x.counting(address)
	if mine, has := x.latestOf(version); has && x.agree(mine, p) {
		return mine, true, true
	}
	return p, false, ok
}

// agree reports whether two records have the same content. An unrecorded directory matches any directory.
func (x *index) agree(p, q latestRecord) bool {
	is, other := x.subdirs[p.subdir], x.subdirs[q.subdir]
	return p.sum == q.sum && (is == "" || other == "" || is == other)
}

// contradicts reports whether a record is the last of its version, contradicts the record that counts for its address, and was
// added after it.
func (x *index) contradicts(number int64, version, address id) bool {
	p, ok := x.latestOf(version)
	counts, _, _ := x.counting(address)
	return ok && int64(p.number) == number && p.number > counts.number && !x.agree(p, counts)
}

// contradiction returns a record as drift if it contradicts the record that counts for its address.
func (l *Log) contradiction(number int64, text []byte) (d Drift, is bool, err error) {
	l.mu.RLock()
	one := len(l.index.others) == 0
	l.mu.RUnlock()
	if one {
		return d, false, nil
	}
	r, err := ParseRecord(text)
	if err != nil {
		return d, false, err
	}
	version, address := ids(r.Ref)
	l.mu.RLock()
	is = l.index.contradicts(number, version, address)
	counts, _, _ := l.index.counting(address)
	subdir := l.index.subdirs[counts.subdir]
	l.mu.RUnlock()
	d = Drift{
		Ref: r.Ref, Recorded: modproxy.NewSum(counts.sum), Offered: r.Sum, Source: r.Source, Time: r.Time, ProviderFacts: r.ProviderFacts,
	}
	if subdir != r.Subdir {
		d.Subdir = r.Subdir
	}
	return d, is, nil
}

// recorded returns the spellings of v that have records, beginning with v itself.
func (l *Log) recorded(ctx context.Context, v modproxy.Ref) (all []modproxy.Ref, err error) {
	var numbers []int64
	l.mu.RLock()
	_, address := ids(v)
	for _, version := range l.index.spellings(address) {
		p, _ := l.index.latestOf(version)
		numbers = append(numbers, int64(p.number))
	}
	l.mu.RUnlock()
	for _, number := range numbers {
		text, err := l.text(number)
		if err != nil {
			return nil, err
		}
		r, err := ParseRecord(text)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Ref)
	}
	slices.SortStableFunc(all, func(a, b modproxy.Ref) int {
		switch {
		case a == v && b != v:
			return -1
		case b == v && a != v:
			return 1
		}
		return 0
	})
	return all, ctx.Err()
}
