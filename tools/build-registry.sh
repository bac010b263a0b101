#!/usr/bin/env bash
# Builds the OCI registry that tests run, in the version that tools/registry/go.mod names,
# below the user's cache directory. It takes seconds if its modules are in the module cache.
set -euo pipefail
cd "$(dirname "$0")/registry"

program=${XDG_CACHE_HOME:-$HOME/.cache}/modproxy-tools/registry
mkdir -p "$(dirname "$program")"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$program.$$.new" github.com/distribution/distribution/v3/cmd/registry
mv "$program.$$.new" "$program"
