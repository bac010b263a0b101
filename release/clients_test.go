package release

import (
	"bufio"
	"bytes"
	"encoding/hex"
)

// clientCrashes reports whether a client panics when it creates lock file lines from a SHA256SUMS document. Its loop
// has the steps of AcceptableHashes in package_authentication.go, which expects at least one field in each line.
func clientCrashes(document []byte) bool {
	for lines := bufio.NewScanner(bytes.NewReader(document)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) == 0 {
			return true
		}
		if _, err := hex.DecodeString(string(fields[0])); len(fields) == 1 || len(fields[0]) != 64 || err != nil {
			return false
		}
	}
	return false
}
