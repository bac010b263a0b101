package release

import (
	"bufio"
	"bytes"
	"encoding/hex"
)

// clientCrashes reports whether a client panics when it makes lines of a lock file of a SHA256SUMS document. Its loop has
// the steps of AcceptableHashes in package_authentication.go, which has no line of less than one field.
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
