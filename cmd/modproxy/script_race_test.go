//go:build race

package main_test

import (
	"cmp"
	"os"
)

// The scripts run modproxy some hundred times. Under the race detector a program
// sleeps for a second when it ends, so that the races of goroutines that are left
// are seen, unless GORACE says otherwise.
func init() {
	buildFlags = []string{"-race"}
	os.Setenv("GORACE", cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=20"))
}
