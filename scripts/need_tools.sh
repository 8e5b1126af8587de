#!/usr/bin/env bash
# Makes sure that programs are there which tests have for judges, or break networks with, and which PyPI
# does not have. Where they cannot be installed, what needs them is skipped and says so.
set -euo pipefail

# Each with Debian's package.
tools=(
    ip:iproute2 tc:iproute2 nft:nftables      # networks of rigs
    etcd:etcd-server etcdctl:etcd-client      # decides which broker is master; its own tool
    prometheus:prometheus promtool:prometheus # scrapes servers, reads alert rules
    pg_ctlcluster:postgresql                  # keeps outboxes and what was consumed
    chromium:chromium                         # shows the dashboard
    redis-server:redis-server                 # remembers consumed messages
    systemd-analyze:systemd                   # reads units; systemd need not run
    go:golang-go                              # compiles h2spec, which judges HTTP/2
)
missing=()
for tool in "${tools[@]}"; do
    command -v "${tool%%:*}" > /dev/null || missing+=("${tool##*:}")
done
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing Debian's ${missing[*]}, for tests"
    # The tests start their own; the machine gets no services.
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "${missing[@]}"; then
        exit 0
    fi
fi
echo "missing: ${missing[*]} (Debian's names): what needs them is skipped" >&2
