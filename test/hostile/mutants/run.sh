#!/usr/bin/env bash
# Checks the tests: applies each patch of this directory to a copy of the committed
# program, and fails unless a test fails for that copy. Arguments name single patches.
#
# A patch begins with a description of the fault, and with these fields:
#
#   Found by: the tests that must fail, a regular expression
#   In:       the package of these tests; without it, they are in test/hostile
#   Long: 1   the tests find the fault only if they run in full
set -euo pipefail
cd "$(dirname "$0")/../../.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
patches=("${@:-}")
if [ -z "${patches[0]}" ]; then
	patches=(test/hostile/mutants/*.patch)
fi

field() { # FIELD PATCH: prints the value of a field
	sed -n "s/^$1: //p" "$2"
}

# cases TREE PROGRAM: runs the tests of test/hostile with a program, or those of a package in a tree
cases() {
	if [ -n "$package" ]; then
		(cd "$1" && RIG_LONG=$long go test -count 1 -timeout 5m -run "$tests" "$package") >"$dir/log" 2>&1
	else
		(cd test/hostile && RIG_PROGRAM=$2 RIG_LONG=$long "$dir/hostile.test" -test.timeout 5m -test.run "^($tests)\$") >"$dir/log" 2>&1
	fi
}

mkdir "$dir/program"
git archive HEAD | tar -x -C "$dir/program"
go test -c -o "$dir/hostile.test" ./test/hostile
(cd "$dir/program" && go build -o "$dir/modproxy" ./cmd/modproxy)

failed=0
for patch in "${patches[@]}"; do
	name=$(basename "$patch" .patch)
	tests=$(field 'Found by' "$patch")
	package=$(field In "$patch")
	long=$(field Long "$patch")
	rm -rf "$dir/mutant"
	cp -r "$dir/program" "$dir/mutant"
	if ! git -C "$dir/mutant" apply -C1 "$PWD/$patch"; then
		echo "$name: DOES NOT APPLY any more: remake the patch"
		failed=1
	elif ! (cd "$dir/mutant" && go build -o "$dir/mutated" ./cmd/modproxy); then
		echo "$name: DOES NOT BUILD any more: remake the patch"
		failed=1
	elif ! cases "$dir/program" "$dir/modproxy"; then
		echo "$name: $tests fails without the patch:"
		tail -n 30 "$dir/log"
		failed=1
	elif cases "$dir/mutant" "$dir/mutated"; then
		echo "$name: NOT FOUND by $tests"
		failed=1
	elif ! grep -q -e '^ *--- FAIL' -e '^hostile: after all tests:' "$dir/log"; then
		echo "$name: the run failed, but no test did:"
		tail -n 30 "$dir/log"
		failed=1
	else
		echo "$name: found: $(grep -a -m1 -e '^    --- FAIL' -e '^--- FAIL' -e '^hostile: after all tests:' "$dir/log" | cut -c1-150)"
	fi
done
exit $failed
