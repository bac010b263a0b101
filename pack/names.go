package pack

import (
	"iter"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// CheckName returns [modproxy.ErrInvalid] for names of files that the form does not allow. It does not check the length of
// the whole name.
func CheckName(name string) error {
	switch {
	case name == "":
		return refuse("an entry without a name")
	case name[0] == '/':
		return refuse("%.200q: the name is absolute", name)
	case len(name) >= 2 && name[1] == ':' && 'a' <= name[0]|0x20 && name[0]|0x20 <= 'z':
		return refuse("%.200q: the name begins with a drive letter", name)
	}
	for _, r := range name {
		switch {
		case unicode.IsControl(r):
			return refuse("%.200q: the name has a control character", name)
		case r == '\\':
			return refuse("%.200q: the name has a backslash", name)
		case 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
			return refuse("%.200q: the name has a character that changes the direction of text", name)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return refuse("%.200q: the name has an empty component", name)
		case part == "." || part == "..":
			return refuse("%.200q: the name has the component %q", name, part)
		case len(part) > maxComponent:
			return refuse("%.200q: the name has a component of %d bytes, more than the %d that are allowed", name, len(part), maxComponent)
		case !isGit(part) && looksLikeGit(part):
			return refuse("%.200q: some file systems take %q for .git", name, part)
		}
	}
	return nil
}

// isGit reports whether packages leave out names with this component.
func isGit(part string) bool { return strings.EqualFold(part, ".git") }

// leftOut reports whether packages leave out name.
func leftOut(name string) bool { return slices.ContainsFunc(strings.Split(name, "/"), isGit) }

// looksLikeGit reports whether NTFS or HFS+ open .git by the name part (is_ntfs_dotgit and is_hfs_dotgit in git).
func looksLikeGit(part string) bool {
	if ntfs := windowsName(part); isGit(ntfs) || strings.EqualFold(ntfs, "git~1") {
		return true
	}
	return isGit(strings.Map(func(r rune) rune {
		switch { // HFS+ ignores these
		case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, part))
}

// fold returns a key that is equal for names that some file system treats as equal. Such names differ only in case (Unicode
// simple folding), in Unicode composition, or in text that Windows drops from the end of a component.
func fold(name string) string {
	name = norm.NFC.String(foldCase(norm.NFD.String(name)))
	if !strings.ContainsAny(name, ": .") {
		return name
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = windowsName(part)
	}
	return strings.Join(parts, "/")
}

// windowsName returns the name of the file that Windows opens by the name part. Windows ignores a colon and the text after
// it, and spaces and dots at the end (https://learn.microsoft.com/windows/win32/fileio/naming-a-file).
func windowsName(part string) string {
	file, _, _ := strings.Cut(part, ":")
	return strings.TrimRight(file, " .")
}

func foldCase(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// newDirs yields the directories above name that are not above last. last is the name before it in ascending order.
func newDirs(last, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !strings.HasPrefix(last, name[:i+1]) && !yield(name[:i]) {
				return
			}
		}
	}
}
