#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing. On other systems than Debian and Ubuntu, it does nothing.
set -euo pipefail

command -v dpkg-query >/dev/null || exit 0
missing=()
for package; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
	root=()
	[ "$(id -u)" = 0 ] || root=(sudo)
	"${root[@]}" apt-get update
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi
