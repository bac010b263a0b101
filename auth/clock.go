package auth

import "time"

// Clock tells the time in spite of steps of the wall clock: turning that back makes nothing last longer. The
// times that it is given come from [time.Now]. It is safe for concurrent use.
type Clock struct {
	wall  time.Time // when the clock was made, without a monotonic reading
	start time.Time // the same moment, with one
}

// NewClock returns a clock that starts now.
func NewClock() Clock {
	now := time.Now()
	return Clock{wall: now.Round(0), start: now}
}

// Steady goes on from the clock's start whatever happens to the wall clock.
func (c *Clock) Steady(now time.Time) time.Time { return c.wall.Add(now.Sub(c.start)) }

// Latest returns the later of the wall clock's time and the steady one.
func (c *Clock) Latest(now time.Time) time.Time {
	if steady := c.Steady(now); steady.After(now) {
		return steady
	}
	return now.Round(0)
}
