#!/usr/bin/env bash
# Runs govulncheck. That its database cannot be reached is said, and is the one
# thing that does not fail. GOVULNDB names another one than https://vuln.go.dev, such
# as file:///DIR with what golang/vulndb's cmd/gendb writes.
set -uo pipefail
cd "$(dirname "$0")/.."

if output=$(go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 -db "${GOVULNDB:-https://vuln.go.dev}" ./... 2>&1); then
	echo "$output"
	exit 0
fi
echo "$output"
if grep -q '^govulncheck: fetching vulnerabilities: Get .*\(dial tcp\|no such host\|timeout\)' <<<"$output"; then
	echo "govulncheck: NOT CHECKED: the vulnerability database cannot be reached from this machine" >&2
	exit 0
fi
exit 1
