//go:build !race

package closure

const (
	memoryCost = 1
	timeCost   = 1
)
