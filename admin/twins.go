package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/policy"
)

// maxTwins is the maximum number of modules, and of versions of each, that remarks name.
const maxTwins = 10

// twins returns a remark for each module with versions that have the same content as a version that d is about. It leaves out the
// versions on which d or another decision has the same effect. d must have been recorded.
func (s *Server) twins(ctx context.Context, d modproxy.Decision) (remarks []string, err error) {
	content := map[string]bool{}
	for r, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, err
		}
		if policy.Covers(d, versionOf(r)) {
			for _, c := range contentOf(r) {
				content[c] = true
			}
		}
	}
	if len(content) == 0 {
		return nil, nil
	}
	twins := map[modproxy.Address]map[string]bool{} // versions by module
	for r, err := range s.Ledger.All(ctx) {
		if err != nil {
			return nil, err
		}
		v := versionOf(r)
		if !slices.ContainsFunc(contentOf(r), func(c string) bool { return content[c] }) || policy.Covers(d, v) {
			continue
		}
		counts, err := s.Ledger.Lookup(ctx, r.Ref)
		if err != nil {
			return nil, err
		}
		decided, err := s.Gate.Decisions(ctx, v)
		if err != nil {
			return nil, err
		}
		if m := v.Address.Folded(); counts.Sum == r.Sum && !hasEffect(d, decided) {
			if twins[m] == nil {
				twins[m] = map[string]bool{}
			}
			twins[m][v.Version] = true
		}
	}
	for _, m := range slices.SortedFunc(maps.Keys(twins), func(a, b modproxy.Address) int { return cmp.Compare(a.String(), b.String()) }) {
		if len(remarks) == maxTwins {
			return append(remarks, fmt.Sprintf("%d more modules have the same content", len(twins)-maxTwins)), nil
		}
		remarks = append(remarks, twinText(d, m, slices.Sorted(maps.Keys(twins[m]))))
	}
	return remarks, nil
}

// versionOf returns the version that a record is about, without the platform of a provider's package.
func versionOf(r modproxy.Record) modproxy.Ref {
	return r.Base()
}

// contentOf returns texts that identify the content of a record. Records with the same content have at least one text in common.
func contentOf(r modproxy.Record) (all []string) {
	if r.IsRecordOnly() || r.IsModuleVariant() { // for example a nested source
		return nil
	}
	subdir := cmp.Or(r.Subdir, ".")
	all = append(all, string(r.Sum)+" "+subdir)
	if r.Source.Commit != "" {
		all = append(all, "commit "+r.Source.Commit+" "+subdir)
	}
	zips, _ := r.Zips.All() // the ledger has checked them
	for _, digest := range zips {
		all = append(all, "zip "+digest.String())
	}
	return all
}

// hasEffect reports whether the decisions about a version have the same effect as d.
func hasEffect(d modproxy.Decision, on policy.Decided) bool {
	switch d.Action {
	case modproxy.Block:
		return on.Block != nil
	case modproxy.Unblock:
		return on.Block == nil
	case modproxy.Reject:
		return on.Block != nil || on.Review != nil && on.Review.Action == modproxy.Reject
	case modproxy.Approve:
		return on.Review != nil && on.Review.Action == modproxy.Approve
	case modproxy.Deprecate:
	}
	return (on.Deprecation != nil) == (d.Reason != "")
}

// twinText returns a remark that versions of m have the same content as versions that d is about. It includes the commands that
// make the same decision about them.
func twinText(d modproxy.Decision, m modproxy.Address, versions []string) string {
	same := d
	same.Address = m
	commands := []string{decisionCommand(d, m, d.Versions)}
	if slices.ContainsFunc(versions, func(v string) bool { return !policy.Covers(same, m.At(v)) }) { // some versions have other numbers
		commands = nil
		for _, v := range versions[:min(len(versions), maxTwins)] {
			commands = append(commands, decisionCommand(d, m, v))
		}
	}
	shown := strings.Join(versions[:min(len(versions), maxTwins)], ", ")
	if more := len(versions) - maxTwins; more > 0 {
		shown += fmt.Sprintf(" and %d more versions", more)
	}
	return fmt.Sprintf("%s %s: the same content, which this decision does not cover: %s", m, shown, strings.Join(commands, "; "))
}

// decisionCommand returns the command line that makes the decision d about versions of m.
func decisionCommand(d modproxy.Decision, m modproxy.Address, versions string) string {
	verb, reason := string(d.Action), " --reason "
	if d.Action == modproxy.Deprecate {
		reason = " --message "
		if d.Reason == "" {
			return commandText(verb+" --lift", m, versions)
		}
	}
	text := commandText(verb, m, versions)
	if d.Reason != "" {
		text += reason + clean.ShellQuote(d.Reason)
	}
	if d.Link != "" {
		text += " --link " + clean.ShellQuote(d.Link)
	}
	if !d.Until.IsZero() {
		text += " --until " + d.Until.UTC().Format(time.RFC3339)
	}
	return text
}
