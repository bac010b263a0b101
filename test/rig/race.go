//go:build race

package rig

// Race reports whether this process has the race detector.
const Race = true

// AsTested are the flags of "go build" that this process was built with.
var AsTested = []string{"-race"}
