//go:build race

package main_test

// The program that the scripts run is built as the test is.
func init() { buildFlags = []string{"-race"} }
