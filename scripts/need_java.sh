#!/usr/bin/env bash
# Makes sure a Java 17 or newer is on the PATH: Spark and the interop tests run on it.
set -euo pipefail

have_java() {
    command -v java >/dev/null 2>&1 && command -v javac >/dev/null 2>&1 &&
        # Not always its first line: Java prints the options it picked up first, if any.
        [ "$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')" -ge 17 ] 2>/dev/null
}

have_java && exit 0
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "Java 17 is missing: installing Debian's openjdk-17-jdk-headless"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jdk-headless
    have_java && exit 0
fi
echo "Java 17 is missing: install a JDK 17 (on Debian: apt-get install openjdk-17-jdk-headless)" >&2
exit 1
