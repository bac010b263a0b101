package release

import (
	"maps"
	"slices"

	"github.com/modproxy/modproxy"
)

// Facts returns the facts about r that a ledger records beside its sum. It verifies the signature and ignores all
// times.
func (r *Release) Facts() (facts modproxy.ProviderFacts, err error) {
	sums, err := ParseSums(r.Sums)
	if sums == nil {
		return facts, err
	}
	zips, others := map[modproxy.Platform]modproxy.Digest{}, sums.Files()
	for _, a := range r.Archives {
		zips[a.Platform] = a.Digest
		delete(others, a.File)
	}
	facts.Zips, facts.Others = modproxy.NewZips(zips), modproxy.NewDigests(slices.Collect(maps.Values(others))...)
	if r.Unsigned {
		return facts, nil
	}
	signer, err := r.Signer()
	facts.Keys = signer.Keys
	return facts, err
}
