#!/usr/bin/env bash
# Makes sure that rigs can have networks of their own: `ip` and `tc` make them, `nft` breaks them.
# Whoever is not root cannot have them anyway; those rigs say so and are skipped.
set -euo pipefail

have_network() {
    command -v ip >/dev/null 2>&1 && command -v tc >/dev/null 2>&1 && command -v nft >/dev/null 2>&1
}

have_network && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "nft is missing: installing Debian's iproute2 and nftables"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iproute2 nftables; } ||
        echo "they could not be installed: what needs them is skipped" >&2
fi
