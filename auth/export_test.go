package auth

import "time"

// The wall clock is turned back by d, as if that had been done since it was opened.

func (t *Tokens) TurnBack(d time.Duration) { t.clock.wall = t.clock.wall.Add(d) }
func (s *Signer) TurnBack(d time.Duration) { s.clock.wall = s.clock.wall.Add(d) }

// SegmentParts are the offsets of the parts of a segment, before its coding.
var SegmentParts = []int{0, 1, expiryAt, idAt, macAt, segmentBytes}

// SegmentCoding is the coding of a segment behind its prefix.
var SegmentCoding = segmentCoding
