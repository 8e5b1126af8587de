#!/usr/bin/env bash
# Makes sure that rigs can have networks of their own, which `ip` and `tc` make and `nft` breaks, and
# etcd in them. Whoever is not root cannot have networks anyway; those rigs say so and are skipped.
set -euo pipefail

have_all() {
    for program in ip tc nft etcd; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
}

have_all && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "nft or etcd is missing: installing Debian's iproute2, nftables and etcd-server"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iproute2 nftables etcd-server; } ||
        echo "they could not be installed: what needs them is skipped" >&2
fi
