package history

import (
	"maps"
	"time"
)

// counts is the record of a module.
type counts struct {
	Total    int64            `json:"total"`
	Days     map[string]int64 `json:"days"` // by date, in UTC
	Versions map[string]int64 `json:"versions"`
}

const (
	maxDays    = 366
	maxCounted = 1000 // versions of a module; other versions count for the module only
)

// add adds downloads of versions at a time to the counts.
func (c *counts) add(versions map[string]int64, at time.Time) {
	if c.Days == nil {
		c.Days = map[string]int64{}
	}
	if c.Versions == nil {
		c.Versions = map[string]int64{}
	}
	for version, n := range versions {
		c.Total += n
		c.Days[dateOf(at, 0)] += n
		if _, known := c.Versions[version]; known || len(c.Versions) < maxCounted {
			c.Versions[version] += n
		}
	}
	first, last := dateOf(at, 1-maxDays), dateOf(at, 1) // the clock of another process may be in the next day
	maps.DeleteFunc(c.Days, func(date string, _ int64) bool { return date < first || date > last })
}

// since returns the downloads in the last days until at.
func (c *counts) since(at time.Time, days int) (n int64) {
	for date, more := range c.Days {
		if date >= dateOf(at, 1-days) {
			n += more
		}
	}
	return n
}

// dateOf returns the date that many days after t.
func dateOf(t time.Time, days int) string { return t.UTC().AddDate(0, 0, days).Format(time.DateOnly) }
