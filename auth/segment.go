package auth

import (
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strings"
	"time"
)

// A segment is s_ and the unpadded URL-safe base64 of
//
//	1 byte   the version of the form, 1
//	1 byte   the kind of the principal
//	4 bytes  when it expires, in seconds since 1970, big-endian
//	16 bytes the id of the principal
//	32 bytes HMAC-SHA-256
//
// An underscore makes it none that can be a hostname, and the proxy has no route
// that begins with s_.
const (
	segmentPrefix  = "s_"
	segmentVersion = 1
	expiryAt       = 2
	idAt           = expiryAt + 4
	macAt          = idAt + idLength
	segmentBytes   = macAt + macLength
	segmentLength  = len(segmentPrefix) + (segmentBytes*8+5)/6
	macLength      = 32
)

var segmentCoding = base64.RawURLEncoding.Strict()

// segment is a signed segment, taken apart.
type segment [segmentBytes]byte

func parseSegment(text string) (s segment, ok bool) {
	if len(text) != segmentLength || !strings.HasPrefix(text, segmentPrefix) {
		return s, false
	}
	n, err := segmentCoding.Decode(s[:], []byte(text[len(segmentPrefix):]))
	return s, err == nil && n == segmentBytes && s[0] == segmentVersion
}

func (s *segment) text() string {
	var text [segmentLength]byte
	copy(text[:], segmentPrefix)
	segmentCoding.Encode(text[len(segmentPrefix):], s[:])
	return string(text[:])
}

func (s *segment) kind() Kind { return Kind(s[1]) }

func (s *segment) expiry() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint32(s[expiryAt:])), 0)
}

func (s *segment) id() string { return string(s[idAt:macAt]) }

// CutSegment takes a signed segment off the beginning of a path from the root.
// There is none in a path whose first segment does not have its form, be it good
// or not; then rest is path.
func CutSegment(path string) (segment, rest string) {
	after, ok := strings.CutPrefix(path, "/"+segmentPrefix)
	if !ok {
		return "", path
	}
	end := strings.IndexByte(after, '/')
	if end < 0 {
		end = len(after)
	}
	return path[1 : 1+len(segmentPrefix)+end], after[end:]
}

// Redact is a path without what is secret in it, for a log: a segment at its
// beginning, good or not, and what looks like a signed segment or a token anywhere
// else, where people have put it by mistake.
func Redact(path string) string {
	prefix, rest := "", path
	if segment, after := CutSegment(path); segment != "" {
		prefix, rest = "/"+segmentPrefix+"[redacted]", after
	}
	if strings.Contains(rest, segmentPrefix) || strings.Contains(rest, tokenPrefix) {
		rest = secretPattern.ReplaceAllString(rest, "$1[redacted]")
	}
	return prefix + rest
}

// secretPattern is a segment or a token, or most of one.
var secretPattern = regexp.MustCompile(`(` + segmentPrefix + `|` + tokenPrefix + `)[A-Za-z0-9_-]{50,}`)
