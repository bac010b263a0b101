package main

import (
	"runtime/debug"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/config"
)

// A request leaves a few kilobytes of garbage, and what is live is a few tens of
// megabytes: at Go's own setting the collector would run some tens of times a second
// under load. It runs less often, until what is used comes near a bound.
const (
	garbagePercent = 400
	garbageRoom    = 256 * config.MiB // beside twice cache.memory
)

// tuneGarbage tells the collector how often to run, unless GOGC or GOMEMLIMIT do.
func (env *environment) tuneGarbage(c *config.Config) {
	set := func(name string) bool {
		return slices.ContainsFunc(env.variables, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !set("GOGC") {
		debug.SetGCPercent(garbagePercent)
	}
	if !set("GOMEMLIMIT") {
		debug.SetMemoryLimit(int64(2*c.Cache.Memory + garbageRoom))
	}
}
