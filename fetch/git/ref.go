package git

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const maxRef = 250 // bytes

var (
	objectIDPattern = regexp.MustCompile(`^(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
	// What git rev-parse may take for an object whose whole id it is to find: an abbreviated id, or what git
	// describe prints.
	abbreviatedPattern = regexp.MustCompile(`^(?:.*-g)?[0-9a-fA-F]{4,64}$`)
)

// checkRef holds ref to the rules of git check-ref-format, so that it is a name or an id and never an expression, a
// refspec, a pattern or an option (https://git-scm.com/docs/git-check-ref-format).
func checkRef(ref string) error {
	const grammar = "ref %.80q: want the name of a branch or tag, or a commit id"
	if len(ref) > maxRef || !utf8.ValidString(ref) || ref == "@" {
		return invalid(grammar, ref)
	}
	if strings.ContainsFunc(ref, unprintable) || strings.ContainsAny(ref, " ~^:?*[") {
		return invalid(grammar, ref)
	}
	if strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "+") || strings.HasSuffix(ref, ".") {
		return invalid(grammar, ref)
	}
	if strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return invalid(grammar, ref)
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return invalid(grammar, ref)
		}
	}
	return nil
}

func isObjectID(ref string) bool { return objectIDPattern.MatchString(ref) }

// isAbbreviated reports whether only a repository that is there as a whole can say what ref means, unless it is a
// name.
func isAbbreviated(ref string) bool {
	return !isObjectID(ref) && (abbreviatedPattern.MatchString(ref) || strings.HasPrefix(ref, "origin/"))
}

// names returns the full names of refs that ref may mean, as git rev-parse tries them
// (https://git-scm.com/docs/gitrevisions).
func names(ref string) []string {
	return []string{ref, "refs/" + ref, "refs/tags/" + ref, "refs/heads/" + ref}
}
