#!/usr/bin/env bash
# Makes sure that Prometheus and its promtool are there: a test lets them judge what servers say.
set -euo pipefail

have_prometheus() {
    command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1
}

have_prometheus && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "Prometheus is missing: installing Debian's prometheus"
    # The tests start their own; the machine gets no service.
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends prometheus
    have_prometheus && exit 0
fi
echo "Prometheus is missing: install it (on Debian: apt-get install prometheus)" >&2
exit 1
