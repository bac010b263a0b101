#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (10s), with one worker, and as
# many targets at a time as there are processors. It fails if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

export time=${FUZZTIME:-10s}
dir=$(mktemp -d)
corpus=$(go env GOCACHE)/fuzz # where "go test" keeps what it finds, too
export dir corpus
trap 'rm -rf "$dir"' EXIT

# targets builds each package that has targets once, and prints for each target the
# directory and the path of its package, its program and its name.
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

# A worker that is in the middle of an input when the time is over makes a target
# fail with nothing but "context deadline exceeded". A finding has an input; what
# has none is tried again.
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
			return 255 # at which xargs starts no more
		fi
		echo "fuzz: the time was over in the middle of an input, and nothing was found: once more"
	done
}
export -f fuzz ended_late target

targets >"$dir/targets"
if [ ! -s "$dir/targets" ]; then
	echo "fuzz: no target found" >&2
	exit 1
fi
# shellcheck disable=SC2016 # it is for the inner shell
xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 4 bash -c 'target "$@"' fuzz <"$dir/targets"
echo "fuzz: $(wc -l <"$dir/targets") targets"
