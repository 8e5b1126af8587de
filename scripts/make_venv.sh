#!/usr/bin/env bash
# Creates .venv with the project and what it needs: `demo` to be shown, `dev` to be checked and tested.
set -euo pipefail
case ${1:-dev} in
    demo)
        # The last chapter is Spark's, which needs Java.
        if command -v java > /dev/null || [ -n "${JAVA_HOME:-}" ]; then
            what='.[spark]' needs="Roquet and Spark: about 850 MB, no test tools"
        else
            what=. needs="Roquet and what it runs on: about 150 MB; without Java there is no Spark to show"
        fi
        ;;
    dev) what='.[dev]' needs="Roquet and all that its tests need, Spark among it: about 1,400 MB" ;;
    *) echo "usage: $0 [demo|dev]" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Roquet needs Python 3.11 or newer; set PYTHON=/path/to/python3.11 when 'python3' is older" >&2
    exit 1
fi
echo "1 of 2: a virtual environment in .venv"
if ! "$python" -m venv .venv; then
    # Debian ships venv apart from Python.
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
        "$python" -m venv .venv
    else
        echo "Python's venv module is missing: install it (on Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
fi
# The loops that are compiled want a C compiler and zlib's header.
if ! echo '#include <zlib.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev zlib1g-dev
    else
        echo "a C compiler or zlib.h is missing: install them (on Debian: apt-get install gcc zlib1g-dev)" >&2
        exit 1
    fi
fi
echo "2 of 2: $needs; $(find src -name '*.pyx' | wc -l) modules are compiled, which takes a minute or two"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$what"
