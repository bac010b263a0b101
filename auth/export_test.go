package auth

import (
	"strings"
	"time"
)

// TurnBack turns the wall clock back by d.
func (t *Tokens) TurnBack(d time.Duration) { t.file.clock.wall = t.file.clock.wall.Add(d) }
func (s *Signer) TurnBack(d time.Duration) { s.keys.clock.wall = s.keys.clock.wall.Add(d) }

// SegmentParts are the offsets of the parts of a decoded segment.
var SegmentParts = []int{0, 1, expiryAt, idAt, macAt, segmentBytes}

// SegmentCoding is the encoding of a segment after its prefix.
var SegmentCoding = segmentCoding

// Sign returns the segment that Path puts in front of path.
func (s *Signer) Sign(p Principal, path string, now time.Time) (string, error) {
	signed, err := s.Path(p, path, now)
	return strings.TrimPrefix(strings.TrimSuffix(signed, path), "/"), err
}

// SetMaxTokens sets the maximum number of tokens in a file. The result restores it.
func SetMaxTokens(n int) func() {
	before := maxTokens
	maxTokens = n
	return func() { maxTokens = before }
}
