package modproxy

import "fmt"

// SizeText formats a number of bytes for people, such as 1.5MiB.
func SizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	x, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	for ; x >= 1024 && len(units) > 1; units = units[1:] {
		x /= 1024
	}
	return fmt.Sprintf("%.1f%s", x, units[0])
}
