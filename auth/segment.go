package auth

import (
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"slices"
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
// No hostname has an underscore, and the proxy has no route that begins with s_.
const (
	segmentPrefix  = "s_"
	segmentVersion = 1
	expiryAt       = 2
	idAt           = expiryAt + 4
	macAt          = idAt + idLength
	segmentBytes   = macAt + 32
	segmentLength  = len(segmentPrefix) + (segmentBytes*8+5)/6
)

var segmentCoding = base64.RawURLEncoding.Strict()

// segment is a signed segment, decoded.
type segment [segmentBytes]byte

func parseSegment(text string) (s segment, ok bool) {
	if len(text) != segmentLength || !strings.HasPrefix(text, segmentPrefix) {
		return s, false
	}
	n, err := segmentCoding.Decode(s[:], []byte(text[len(segmentPrefix):]))
	return s, err == nil && n == segmentBytes && s[0] == segmentVersion
}

func (s *segment) kind() Kind { return Kind(s[1]) }

func (s *segment) expiry() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint32(s[expiryAt:])), 0)
}

func (s *segment) id() string { return string(s[idAt:macAt]) }

// CutSegment cuts a signed segment, good or not, off the beginning of a path from the root. If the first
// segment does not have its form, the segment is empty and rest is path.
func CutSegment(path string) (segment, rest string) {
	if !strings.HasPrefix(path, "/"+segmentPrefix) {
		return "", path
	}
	end := strings.IndexByte(path[1:], '/') + 1
	if end == 0 {
		end = len(path)
	}
	return path[1:end], path[end:]
}

// Redact returns a path, or a text with parts of a request, without secrets, for a log or an answer. It redacts
// a segment at the beginning of a path, good or not, and what looks like a signed segment, a token or a JSON
// Web Token anywhere else, where people have put it by mistake.
func Redact(text string) string {
	segment, rest := CutSegment(text)
	if slices.ContainsFunc(secretMarks, func(mark string) bool { return strings.Contains(rest, mark) }) {
		rest = secretPattern.ReplaceAllString(rest, "$1$2$3[redacted]")
	}
	if segment != "" {
		rest = "/" + segmentPrefix + "[redacted]" + rest
	}
	return rest
}

// secretPattern matches a token from its id on, most of a segment or of a token, or a JSON Web Token with some
// of its signature, in any case of its letters. What it matches has one of secretMarks.
var (
	secretPattern = regexp.MustCompile(`(` + tokenPrefix + `)[a-z2-7]{16}_[A-Za-z0-9_-]+` +
		`|(` + segmentPrefix + `|` + tokenPrefix + `)[A-Za-z0-9_-]{50,}` +
		`|([Ee][Yy][Jj])[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	secretMarks = []string{segmentPrefix, tokenPrefix, "eyJ", "eyj"}
)
