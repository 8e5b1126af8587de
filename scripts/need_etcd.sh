#!/usr/bin/env bash
# Makes sure etcd is on the PATH: the tests of automatic failover run against a real one.
set -euo pipefail

command -v etcd >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "etcd is missing: installing Debian's etcd-server"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq etcd-server
    command -v etcd >/dev/null 2>&1 && exit 0
fi
echo "etcd is missing: install it (on Debian: apt-get install etcd-server)" >&2
exit 1
