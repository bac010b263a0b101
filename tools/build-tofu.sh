#!/usr/bin/env bash
# Builds OpenTofu for the tests that run it, in the version that tools/go.mod names. The
# program is $MODPROXY_TOFU, or a file below the user's cache directory. An existing
# $MODPROXY_TOFU stays, and so does a program of that version. A build takes some minutes.
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
	echo "tofu${have:+ $have}: $program (from MODPROXY_TOFU)"
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
