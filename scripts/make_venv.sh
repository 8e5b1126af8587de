#!/usr/bin/env bash
# Creates a virtual environment ($VENV, by default .venv) with the project and what it needs: `demo` to be
# shown, `dev` to be checked and tested. $PYTHON chooses the interpreter; without it an environment keeps
# the one it was made with, and a new one takes `python3`. `is-other` prints "yes" if $PYTHON is not the one
# that the environment was made with.
set -euo pipefail
venv=${VENV:-.venv}
# Version and path of the interpreter itself, not of an environment that was made with it.
about() {
    "$1" -c 'import os, platform, sys
print(f"Python {platform.python_version()} ({os.path.realpath(sys._base_executable)})")' 2>/dev/null
}
made_with=
if [ -f "$venv/pyvenv.cfg" ]; then
    made_with=$(about "$venv/bin/python" || echo "a Python that is gone")
fi
case ${1:-dev} in
    is-other)
        if [ -n "$made_with" ] && [ -n "${PYTHON:-}" ] && [ "$made_with" != "$(about "$PYTHON")" ]; then
            echo yes
        fi
        exit 0
        ;;
    demo)
        # The last chapter is Spark's, which needs Java.
        if command -v java > /dev/null || [ -n "${JAVA_HOME:-}" ]; then
            what='.[spark]' needs="Roquet and Spark: about 850 MB, no test tools"
        else
            what=. needs="Roquet and what it runs on: about 120 MB; without Java there is no Spark to show"
        fi
        ;;
    dev) what='.[dev]' needs="Roquet and all that its tests need, Spark among it: about 1,400 MB" ;;
    *) echo "usage: $0 [demo|dev|is-other]" >&2; exit 2 ;;
esac
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=python3
    [ -z "$made_with" ] || python=$venv/bin/python
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Roquet needs Python 3.11 or newer; set PYTHON=/path/to/python3.11 when '$python' is older" >&2
    exit 1
fi
about "$python"
if [ -n "$made_with" ] && [ "$made_with" != "$(about "$python")" ]; then
    echo "$venv was made with $made_with: it is made again"
    rm -rf "$venv"
fi
echo "1 of 2: a virtual environment in $venv"
if [ ! -x "$venv/bin/pip" ] && ! "$python" -m venv "$venv"; then
    # Debian ships venv apart from Python.
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
        "$python" -m venv "$venv"
    else
        echo "Python's venv module is missing: install it (on Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
fi
# The loops that are compiled want a C compiler and the headers of zlib and Python.
headers=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if ! printf '#include <zlib.h>\n#include <Python.h>\n' | ${CC:-cc} "-I$headers" -E - >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev zlib1g-dev python3-dev
    else
        echo "a C compiler, zlib.h or Python.h is missing: install them" \
            "(on Debian: apt-get install gcc zlib1g-dev python3-dev)" >&2
        exit 1
    fi
fi
# The gRPC endpoint wants nghttp2; without it everything else is built.
has_nghttp2() { printf '#include <nghttp2/nghttp2.h>\n' | ${CC:-cc} -E - >/dev/null 2>&1; }
if ! has_nghttp2 && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libnghttp2-dev || true
fi
has_nghttp2 ||
    echo "nghttp2.h is missing: there will be no gRPC endpoint (on Debian: apt-get install libnghttp2-dev)" >&2
echo "2 of 2: $needs; $(find src -name '*.pyx' | wc -l) modules are compiled, which takes a minute or two"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$what"
# The first server of a checkout starts as quickly as every other: compiling takes three times as long as starting.
"$venv/bin/python" -m compileall -q src
