//go:build linux && race

package hostile_test

func init() {
	buildFlags = []string{"-race"}
	raceDetector = true
}
