#!/usr/bin/env bash
# Builds OpenTofu, in the version that tools/go.mod names, for the tests that run
# it: to $MODPROXY_TOFU, or else below the user's cache directory. Does nothing
# when that version is there. The first time takes some minutes.
set -euo pipefail
cd "$(dirname "$0")"

module=github.com/opentofu/opentofu
program=${MODPROXY_TOFU:-${XDG_CACHE_HOME:-$HOME/.cache}/modproxy-tools/tofu}
want=$(go list -m -f '{{.Version}}' "$module")
have=
if [ -x "$program" ]; then
	have=$(go version -m "$program" 2>/dev/null | awk -v m="$module" '($1 == "mod" || $1 == "dep") && $2 == m { print $3 }')
fi
if [ -n "${MODPROXY_TOFU:-}" ] && [ -x "$program" ]; then
	echo "tofu: $program, as MODPROXY_TOFU says${have:+ ($have)}"
	exit 0
fi
if [ "$have" = "$want" ]; then
	echo "tofu $want: $program"
	exit 0
fi
echo "tofu $want: building $program, which takes some minutes"
mkdir -p "$(dirname "$program")"
CGO_ENABLED=0 go build -trimpath -o "$program.$$.new" "$module/cmd/tofu"
mv "$program.$$.new" "$program"
