#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (10s), each with one worker, and one
# target per processor at a time. It fails if the module has no fuzz target.
set -euo pipefail
cd "$(dirname "$0")/.."

export time=${FUZZTIME:-10s}
dir=$(mktemp -d)
corpus=$(go env GOCACHE)/fuzz # where "go test" stores the inputs that it finds
export dir corpus
trap 'rm -rf "$dir"' EXIT

# targets builds each package with fuzz targets once. For each target, it prints the
# directory and the path of the package, the test program and the name of the target.
targets() {
	go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.Dir}} {{$p.ImportPath}} {{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.Dir}} {{$p.ImportPath}} {{.}}{{"\n"}}{{end}}' ./... |
		while read -r at package file; do
			if [ -n "$file" ] && grep -q '^func Fuzz' "$at/$file"; then
				echo "$at $package"
			fi
		done | sort -u |
		while read -r at package; do
			program=$dir/${package//\//_}
			go test -c -fuzz . -o "$program" "$package" </dev/null
			(cd "$at" && "$program" -test.list '^Fuzz') | sed "s|^|$at $package $program |"
		done
}

fuzz() { # DIRECTORY PACKAGE PROGRAM TARGET
	cd "$1"
	"$3" -test.run '^$' -test.fuzz "^$4\$" -test.fuzztime "$time" -test.fuzzminimizetime 1s -test.parallel 1 \
		-test.fuzzcachedir "$corpus/$2" -test.paniconexit0 </dev/null
}

# ended_late reports whether a target failed only because the time was over while its
# worker ran an input. The output is then "context deadline exceeded", without a failing
# input. Such a target is run again.
ended_late() { # OUTPUT
	grep -q '^ *context deadline exceeded$' "$1" && ! grep -qE 'Failing input|panic|_test\.go:' "$1"
}

target() { # DIRECTORY PACKAGE PROGRAM TARGET
	local output try
	output=$(mktemp -p "$dir")
	for try in 1 2 3; do
		echo "fuzz: $2 $4, $time" >"$output"
		if fuzz "$@" >>"$output" 2>&1; then
			cat "$output"
			return
		fi
		cat "$output"
		if [ "$try" = 3 ] || ! ended_late "$output"; then
			return 255 # with this status, xargs starts no other target
		fi
		echo "fuzz: the time was over during an input, without a finding: running the target again"
	done
}
export -f fuzz ended_late target

targets >"$dir/targets"
if [ ! -s "$dir/targets" ]; then
	echo "fuzz: no target found" >&2
	exit 1
fi
# shellcheck disable=SC2016 # the inner shell expands it
xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 4 bash -c 'target "$@"' fuzz <"$dir/targets"
echo "fuzz: $(wc -l <"$dir/targets") targets"
