#!/usr/bin/env bash
# Builds what is compiled with AddressSanitizer, beside the usual build, and runs golden and hostile bytes
# through it. A byte that is read or written where none is ends the run with a report.
#
#   scripts/sanitize.sh [TESTS...]
set -euo pipefail
cd "$(dirname "$0")/.."

python="$PWD/.venv/bin/python"
build="$PWD/build/sanitized"
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
    tests=(
        tests/unit/broker/fast_path
        tests/unit/broker/pop/test_in_flight.py
        tests/unit/broker/pop/test_journal.py
        tests/unit/broker/pop/test_journal_writing.py
        tests/unit/client/push/test_offset_book.py
        tests/unit/grpc
        tests/unit/net/test_connection.py
        tests/unit/net/test_epoll_sockets.py
        tests/unit/protocol/messages
        tests/unit/protocol/templates
        tests/unit/protocol/test_binary.py
        tests/unit/protocol/test_frame.py
        tests/unit/protocol/test_golden_frames.py
        tests/unit/store/keys
        tests/unit/store/reading/test_gathering.py
        tests/unit/store/test_golden_stores.py
        tests/property/test_hostile_input.py
        tests/property/test_fast_path.py
        tests/property/test_grpc_fast_calls.py
        tests/property/test_key_scan.py
        tests/property/test_offset_book.py
        tests/property/test_pops.py
        tests/property/test_record_batches.py
        tests/property/test_record_columns.py
        tests/property/test_record_filter.py
        tests/property/test_record_parts.py
        tests/property/test_record_scan.py
        tests/property/test_redelivery.py
        tests/property/test_reply_frames.py
        tests/property/test_shown_records.py
    )
fi

CFLAGS="-fsanitize=address -fno-omit-frame-pointer -O1 -g1" LDFLAGS="-fsanitize=address" \
    "$python" setup.py --quiet build --build-lib "$build" --build-temp "$build-objects" --parallel 2

# Each object of Python is a block of its own, or an overrun would end in its neighbour unseen. Python itself
# keeps memory until it ends, so leaks are not asked for.
LD_PRELOAD="$(gcc -print-file-name=libasan.so)" \
    ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1" \
    PYTHONMALLOC=malloc \
    PYTHONPATH="$build" \
    "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
