#!/usr/bin/env bash
# Compares the modules that the program links, and the size of its stripped binary, with
# tools/linked.txt. A commit that changes either updates that file and gives the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -ldflags '-s -w' -o "$dir/modproxy" ./cmd/modproxy
size=$(wc -c <"$dir/modproxy")
{
	sed -n '/^#/p' tools/linked.txt
	echo "size $(((size + (1 << 20) - 1) >> 20)) MiB"
	go version -m "$dir/modproxy" | awk '$1 == "dep" { print $2 }' | sort
} >"$dir/linked.txt"
diff -u tools/linked.txt "$dir/linked.txt" || {
	echo "tools/linked.txt differs from the built program: if the change is intended, update the file and give the reason in the commit" >&2
	exit 1
}
