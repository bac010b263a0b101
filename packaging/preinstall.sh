#!/bin/sh
# Runs before .deb and .rpm are unpacked: makes the user of the service, because its directories belong to it.
set -e
getent group modproxy >/dev/null || groupadd --system modproxy
getent passwd modproxy >/dev/null || useradd --system --gid modproxy --home-dir /var/lib/modproxy --no-create-home \
	--shell /usr/sbin/nologin --comment "modproxy service" modproxy
