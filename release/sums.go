package release

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/modproxy/modproxy"
)

const (
	maxLines = 1000     // each becomes a line of a lock file
	maxLine  = 64 << 10 // bytes, at which the clients' bufio.Scanner stops
)

// Sums are the lines of a SHA256SUMS document. They are not changed.
type Sums struct {
	// Whole says that the first field of every line is a checksum: only then do clients lock the checksums of all platforms.
	Whole bool
	files map[string]modproxy.Digest // zero for one that has a line without a checksum
}

// BlankLine is a [modproxy.ErrInvalid] about a SHA256SUMS document with a blank line, at which both clients panic where they
// install from a provider registry. Its bytes are signed, so it cannot be mended. Network mirrors do not show it to clients.
type BlankLine struct {
	Line int // counted from 1
}

func (e *BlankLine) Error() string {
	return fmt.Sprintf("SHA256SUMS: line %d is blank, at which Terraform and OpenTofu crash; its publisher must release it anew, "+
		"without blank lines, or it must be installed through a network mirror", e.Line)
}

func (e *BlankLine) Unwrap() error { return modproxy.ErrInvalid }

// ParseSums reads a SHA256SUMS document: lines with the hexadecimal SHA-256 and the name of a file, ended by LF or CRLF.
//
// As for the clients (matchingChecksumAuthentication and AcceptableHashes in package_authentication.go), fields are separated
// by any space, what follows the second is ignored, and a line may be something else. A file that has two lines must
// have the same checksum in both: the clients read the first one.
//
// Errors: a [*BlankLine], along with the sums, which are right; else [modproxy.ErrInvalid], without.
func ParseSums(document []byte) (*Sums, error) {
	if len(document) > MaxSums {
		return nil, invalid("SHA256SUMS: more than the %d bytes that are allowed", MaxSums)
	}
	document = bytes.TrimSuffix(document, []byte("\n"))
	if len(document) == 0 {
		return nil, invalid("SHA256SUMS: it is empty")
	}
	sums := &Sums{Whole: true, files: map[string]modproxy.Digest{}}
	var blank error
	n := 0
	for line := range bytes.SplitSeq(document, []byte("\n")) {
		if n++; n > maxLines {
			return nil, invalid("SHA256SUMS: more than the %d lines that are allowed", maxLines)
		}
		if len(line) >= maxLine {
			return nil, invalid("SHA256SUMS: line %d has more than the %d bytes that are allowed", n, maxLine-1)
		}
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			if sums.Whole && blank == nil { // at the first other line the clients stop reading
				blank = &BlankLine{n}
			}
			continue
		}
		digest, ok := parseSum(fields[0])
		sums.Whole = sums.Whole && ok && len(fields) > 1
		if len(fields) < 2 {
			continue
		}
		file := string(fields[1])
		if before, twice := sums.files[file]; twice && before != digest {
			return nil, invalid("SHA256SUMS: %.80q has two lines, with different checksums", file)
		}
		sums.files[file] = digest
	}
	return sums, blank
}

func parseSum(field []byte) (d modproxy.Digest, ok bool) {
	if len(field) != hex.EncodedLen(len(d)) {
		return d, false
	}
	if _, err := hex.Decode(d[:], field); err != nil {
		return modproxy.Digest{}, false
	}
	return d, true
}

// Files returns the checksum of each file that has one. The map is the caller's.
func (s *Sums) Files() map[string]modproxy.Digest {
	files := maps.Clone(s.files)
	maps.DeleteFunc(files, func(_ string, d modproxy.Digest) bool { return d.IsZero() })
	return files
}

// Check returns a [modproxy.ErrInvalid] unless the document has the checksum d for file, byte by byte.
func (s *Sums) Check(file string, d modproxy.Digest) error {
	got, ok := s.files[file]
	switch {
	case !ok:
		return invalid("SHA256SUMS: it has no line for %.80q", file)
	case got.IsZero():
		return invalid("SHA256SUMS: the line of %.80q has no checksum", file)
	case got != d:
		return invalid("SHA256SUMS: it has the checksum %s for %.80q, and the registry says %s", got, file, d)
	}
	return nil
}

// Extends returns a [modproxy.ErrChanged] unless s says about every file what before said: a document may gain lines when
// more platforms are published, and nothing else.
func (s *Sums) Extends(before *Sums) error {
	for file, d := range before.Files() {
		if now, ok := s.files[file]; !ok {
			return fmt.Errorf("%w: SHA256SUMS: the line of %.80q is gone; its checksum was %s", modproxy.ErrChanged, file, d)
		} else if now != d {
			return fmt.Errorf("%w: SHA256SUMS: the checksum of %.80q is %s, and was %s", modproxy.ErrChanged, file, now, d)
		}
	}
	return nil
}
