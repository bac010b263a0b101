#!/bin/sh
# Completes the Debian root of the image, for mmdebstrap: adds the user and the program.
#
#   image-root.sh ROOT PROGRAM LIST
#
# The file LIST gets a line for each Debian package: its name, version and architecture.
set -eu
root=$1 program=$2 list=$3
echo 'modproxy:x:10001:10001:modproxy:/var/lib/modproxy:/usr/sbin/nologin' >>"$root/etc/passwd"
echo 'modproxy:x:10001:' >>"$root/etc/group"
install -d -m 700 -o 10001 -g 10001 "$root/var/lib/modproxy"
install -m 755 "$program" "$root/usr/bin/modproxy"
dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat='${Package} ${Version} ${Architecture}\n' >"$list"
