#!/usr/bin/env bash
# Runs govulncheck. If its database cannot be reached, it prints NOT CHECKED and does not
# fail. GOVULNDB is the URL of another database than https://vuln.go.dev, such as
# file:///DIR with the output of cmd/gendb of golang/vulndb.
set -uo pipefail
cd "$(dirname "$0")/.."

if output=$(go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 -db "${GOVULNDB:-https://vuln.go.dev}" ./... 2>&1); then
	echo "$output"
	exit 0
fi
echo "$output"
if grep -q '^govulncheck: fetching vulnerabilities: Get .*\(dial tcp\|no such host\|timeout\)' <<<"$output"; then
	echo "govulncheck: NOT CHECKED: this machine cannot reach the vulnerability database" >&2
	exit 0
fi
exit 1
