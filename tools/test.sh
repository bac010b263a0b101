#!/usr/bin/env bash
# Sets up the programs that the tests need, and runs "make test". On Debian and Ubuntu, it
# installs missing packages. On other systems, it fails and names the first missing program.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(bzip2 ca-certificates caddy curl e2fsprogs gcc git haproxy iproute2 jq libc6-dev make mmdebstrap mount nginx-light
	openssh-client openssh-server rpm strace systemd systemd-container unzip util-linux xz-utils)
programs=(bzip2 curl gcc git jq make npm ssh-keygen unzip xz)
command -v npm >/dev/null || packages+=(npm)
if command -v dpkg-query >/dev/null; then
	tools/debian.sh "${packages[@]}"
else
	for program in "${programs[@]}"; do
		command -v "$program" >/dev/null || { echo "$program is missing: the tests need it, and an OpenSSH server" >&2; exit 1; }
	done
fi
go version
exec make test
