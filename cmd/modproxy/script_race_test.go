//go:build race

package main_test

func init() { buildFlags = []string{"-race"} }
