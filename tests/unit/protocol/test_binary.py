"""Compiled code computes checksums in a way of its own, records in Python are checked by zlib."""

import random
from zlib import crc32

from roquet.protocol.messages.record import read_record
from tests.support.drafts import draft
from tests.support.records import record_of

# Lanes of 16 bytes are folded four at a time, and what is left over goes another way.
SIZES = (*range(200), *range(1_000, 1_070), 65_535, 65_536, 1_000_003)


def test_the_checksum_of_a_body_of_any_size_is_that_of_zlib() -> None:
    randomness = random.Random(7)
    for size in SIZES:
        body = randomness.randbytes(size)
        assert read_record(record_of(draft(body))).body_crc == crc32(body) & 0x7FFFFFFF, size


def test_one_bit_anywhere_changes_it() -> None:
    body = bytearray(200)
    seen = {read_record(record_of(draft(bytes(body)))).body_crc}
    for bit in range(len(body) * 8):
        body[bit // 8] ^= 1 << bit % 8
        seen.add(read_record(record_of(draft(bytes(body)))).body_crc)
        body[bit // 8] ^= 1 << bit % 8
    assert len(seen) == 1 + len(body) * 8
