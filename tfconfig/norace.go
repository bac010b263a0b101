//go:build !race

package tfconfig

const (
	memoryCost = 1
	timeCost   = 1
)
