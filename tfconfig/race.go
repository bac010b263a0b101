//go:build race

package tfconfig

// memoryCost is how much more memory a process has mapped than it would have without the race detector.
const memoryCost = 16

// timeCost is how much more time it is given.
const timeCost = 8
