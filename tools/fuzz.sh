#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (10s), one after the other,
# and fails if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZTIME:-10s}
# "go test -list" prints the targets of a package, then "ok" and its path.
listed=$(go test -list '^Fuzz' ./...)
targets=$(awk '/^Fuzz/ { names[n++] = $1 } $1 == "ok" { for (i = 0; i < n; i++) print $2, names[i] } !/^Fuzz/ { n = 0 }' <<<"$listed")
if [ -z "$targets" ]; then
	echo "fuzz: no target found" >&2
	exit 1
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT

fuzz() { # PACKAGE TARGET
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 1s "$1" </dev/null 2>&1 | tee "$output"
}

# A worker that is in the middle of an input when the time is over makes "go test"
# fail with nothing but "context deadline exceeded". A finding has an input; what
# has none is tried again.
ended_late() {
	grep -q '^ *context deadline exceeded$' "$output" && ! grep -qE 'Failing input|panic|_test\.go:' "$output"
}

while read -r package target; do
	echo "fuzz: $package $target, $time"
	for try in 1 2 3; do
		if fuzz "$package" "$target"; then
			break
		elif [ "$try" = 3 ] || ! ended_late; then
			exit 1
		fi
		echo "fuzz: the time was over in the middle of an input, and nothing was found: once more"
	done
done <<<"$targets"
echo "fuzz: $(wc -l <<<"$targets") targets"
