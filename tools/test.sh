#!/usr/bin/env bash
# Sets up the programs that the tests need, and runs "make test". On Debian and Ubuntu, it
# installs missing packages. On other systems, it fails and names the first missing program.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(bzip2 ca-certificates caddy curl e2fsprogs gcc git haproxy iproute2 jq libc6-dev make mount nginx-light openssh-client openssh-server strace systemd unzip util-linux xz-utils)
programs=(bzip2 curl gcc git jq make npm ssh-keygen unzip xz)
command -v npm >/dev/null || packages+=(npm)
if command -v dpkg-query >/dev/null; then
	missing=()
	for package in "${packages[@]}"; do
		dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
	done
	if [ ${#missing[@]} -gt 0 ]; then
		root=()
		[ "$(id -u)" = 0 ] || root=(sudo)
		"${root[@]}" apt-get update
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
	fi
else
	for program in "${programs[@]}"; do
		command -v "$program" >/dev/null || { echo "$program is missing: the tests need it, and an OpenSSH server" >&2; exit 1; }
	done
fi
go version
exec make test
