#!/usr/bin/env bash
# Builds the real provider that tests install and run, in the version that
# tools/provider/go.mod names, below the user's cache directory. It takes seconds if its
# modules are in the module cache.
set -euo pipefail
cd "$(dirname "$0")/provider"

program=${XDG_CACHE_HOME:-$HOME/.cache}/modproxy-tools/terraform-provider-time
mkdir -p "$(dirname "$program")"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$program.$$.new" github.com/hashicorp/terraform-provider-time
mv "$program.$$.new" "$program"
