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
while read -r package target; do
	echo "fuzz: $package $target, $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s "$package" </dev/null
done <<<"$targets"
echo "fuzz: $(wc -l <<<"$targets") targets"
