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
	maxLine  = 64 << 10 // bytes; the clients' bufio.Scanner stops at this length
)

// Sums has the lines of a SHA256SUMS document. It is immutable.
type Sums struct {
	// Whole reports that the first field of every line is a checksum. Only then do clients lock the checksums of all
	// platforms.
	Whole bool
	files map[string]modproxy.Digest // zero for a file whose line has no checksum
}

// BlankLine is a [modproxy.ErrInvalid] about a SHA256SUMS document with a blank line. Both clients panic at this line
// when they install from a provider registry. The document is signed, so modproxy cannot remove the line. Network
// mirrors do not serve the document to clients.
type BlankLine struct {
	Line int // counted from 1
}

func (e *BlankLine) Error() string {
	return fmt.Sprintf("SHA256SUMS: line %d is blank, and Terraform and OpenTofu crash on it: the publisher must release it again "+
		"without blank lines, or clients must install it through a network mirror", e.Line)
}

func (e *BlankLine) Unwrap() error { return modproxy.ErrInvalid }

// ParseSums reads a SHA256SUMS document: lines with a hexadecimal SHA-256 and a file name, ended by LF or CRLF.
//
// As for the clients (matchingChecksumAuthentication and AcceptableHashes in package_authentication.go), any space
// separates fields, content after the second field is ignored, and lines may have another form. If a file has two
// lines, their checksums must be equal, because the clients read only the first.
//
// Errors: a [*BlankLine], together with valid sums; otherwise [modproxy.ErrInvalid], without sums.
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
			if sums.Whole && blank == nil { // at the first line of another form, the clients stop reading
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

// Files returns the checksum of each file that has one. The caller owns the map.
func (s *Sums) Files() map[string]modproxy.Digest {
	files := maps.Clone(s.files)
	maps.DeleteFunc(files, func(_ string, d modproxy.Digest) bool { return d.IsZero() })
	return files
}

// Check returns a [modproxy.ErrInvalid] unless the document has the checksum d for the exact file name.
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

// Extends returns a [modproxy.ErrChanged] unless s has every file of before with the same checksum. A document may only
// gain lines, when more platforms are published.
func (s *Sums) Extends(before *Sums) error {
	for file, d := range before.Files() {
		if now, ok := s.files[file]; !ok {
			return fmt.Errorf("%w: SHA256SUMS: the line of %.80q is missing; its checksum was %s", modproxy.ErrChanged, file, d)
		} else if now != d {
			return fmt.Errorf("%w: SHA256SUMS: the checksum of %.80q is %s, and was %s", modproxy.ErrChanged, file, now, d)
		}
	}
	return nil
}
