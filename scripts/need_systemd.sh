#!/usr/bin/env bash
# Makes sure `systemd-analyze` is there, which reads the units in deploy/systemd. systemd need not run.
set -euo pipefail
command -v systemd-analyze > /dev/null && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "systemd-analyze is missing: installing Debian's systemd"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd
else
    echo "systemd-analyze is missing: tests of deploy/systemd are skipped" >&2
fi
