//go:build race

package rig

// Race reports whether this process has the race detector.
const Race = true

// AsTested contains the flags of "go build" with which this process was built.
var AsTested = []string{"-race"}
