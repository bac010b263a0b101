#!/usr/bin/env bash
# Compares the modules that the program links, and the size of its stripped binary, with
# tools/linked.txt. A commit that changes either updates that file and gives the reason.
# On linux/amd64 it looks at ./modproxy, which "make build" makes.
set -euo pipefail
cd "$(dirname "$0")/.."

program=modproxy
if [ "$(go env GOOS GOARCH | paste -sd /)" != linux/amd64 ]; then
	program=$(mktemp)
	trap 'rm -f "$program"' EXIT
	GOOS=linux GOARCH=amd64 make build PROGRAM="$program"
fi
size=$(wc -c <"$program")
linked=$(
	sed -n '/^#/p' tools/linked.txt
	echo "size $(((size + (1 << 20) - 1) >> 20)) MiB"
	go version -m "$program" | awk '$1 == "dep" { print $2 }' | sort
)
diff -u tools/linked.txt - <<<"$linked" || {
	echo "tools/linked.txt differs from the built program: if the change is intended, update the file and give the reason in the commit" >&2
	exit 1
}
