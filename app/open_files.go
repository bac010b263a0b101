package app

import "github.com/modproxy/modproxy/config"

// What modproxy has open beside the connections of clients: at all times, and for
// each package that is fetched.
const (
	filesOpen       = 32
	filesOfOneFetch = 6
)

// connections is how many clients may be connected: as many as are configured, but
// what is kept must be opened, and something fetched, while all of them are there.
// limit is how many files the process may have open; zero: nobody knows.
func connections(c *config.Config, limit uint64) int {
	if limit == 0 {
		return c.Limits.Connections
	}
	most := uint64(c.Limits.Connections)
	left := uint64(filesOpen + filesOfOneFetch*c.Fetch.AtOnce)
	return int(max(1, min(most, max(limit/4, limit-min(limit, left)))))
}
