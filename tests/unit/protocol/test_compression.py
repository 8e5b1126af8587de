"""Compressed bodies: real ones, bombs and garbage."""

import tracemalloc
import zlib

import lz4.frame
import pytest
from backports import zstd

from roquet.protocol.compression import (
    Compression,
    compress,
    compression_of,
    decompress,
)
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.record import read_record
from tests.support.golden_records import golden_records

ALL = list(Compression)
TEXT = b"a text that repeats itself. " * 1000


@pytest.mark.parametrize("compression", ALL)
@pytest.mark.parametrize("body", [b"", b"a", TEXT])
def test_a_body_survives_a_round_trip(compression: Compression, body: bytes) -> None:
    packed = compress(body, compression)
    assert decompress(packed, compression.sys_flag) == body
    if body is TEXT:
        assert len(packed) < len(body) / 10


def test_the_bits_say_how_a_body_is_compressed() -> None:
    assert Compression.LZ4.sys_flag == 0x101
    assert Compression.ZSTD.sys_flag == 0x201
    assert Compression.ZLIB.sys_flag == 0x301


def test_bodies_without_kind_are_zlib() -> None:
    assert compression_of(0x1) is Compression.ZLIB
    assert decompress(zlib.compress(TEXT), 0x1) == TEXT


@pytest.mark.parametrize("sys_flag", [0x401, 0x501, 0x601, 0x701])
def test_an_unknown_kind_is_refused(sys_flag: int) -> None:
    with pytest.raises(BadMessage):
        decompress(zlib.compress(TEXT), sys_flag)


def test_real_bodies_of_every_kind_are_read() -> None:
    kinds = set()
    for record in golden_records():
        message = read_record(record.data)
        if message.sys_flag & 1:
            assert len(message.decompressed_body()) > len(message.body), record.place
            kinds.add(compression_of(message.sys_flag))
    assert kinds == set(ALL)


@pytest.mark.parametrize("compression", ALL)
def test_the_limit_is_exact(compression: Compression) -> None:
    packed = compress(TEXT, compression)
    assert decompress(packed, compression.sys_flag, len(TEXT)) == TEXT
    with pytest.raises(TooLarge):
        decompress(packed, compression.sys_flag, len(TEXT) - 1)


@pytest.mark.parametrize("compression", ALL)
@pytest.mark.slow
def test_a_bomb_is_stopped_before_it_takes_memory(compression: Compression) -> None:
    bomb = compress(bytes(64 * 1024 * 1024), compression)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            decompress(bomb, compression.sys_flag, 1024 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


@pytest.mark.parametrize("compression", ALL)
def test_a_body_that_ends_too_early_is_refused(compression: Compression) -> None:
    packed = compress(TEXT, compression)
    for size in range(len(packed)):
        with pytest.raises(BadMessage):
            decompress(packed[:size], compression.sys_flag)


@pytest.mark.parametrize("compression", ALL)
def test_what_follows_a_compressed_body_is_ignored(compression: Compression) -> None:
    assert decompress(compress(TEXT, compression) + b"more", compression.sys_flag) == TEXT


@pytest.mark.parametrize("compression", ALL)
def test_garbage_is_refused(compression: Compression) -> None:
    for garbage in (b"garbage", bytes(100), bytes(range(256))):
        with pytest.raises(BadMessage):
            decompress(garbage, compression.sys_flag)


def test_a_frame_that_wants_too_large_a_window_is_refused() -> None:
    wide = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    packed = wide.compress(TEXT) + wide.flush()
    with pytest.raises(BadMessage):
        decompress(packed, Compression.ZSTD.sys_flag)


def test_a_frame_that_declares_more_than_it_holds_is_refused() -> None:
    packed = bytearray(zstd.compress(b"x" * 300))
    assert zstd.get_frame_info(packed).decompressed_size == 300
    packed[5:7] = (60000).to_bytes(2, "little")
    with pytest.raises(BadMessage):
        decompress(bytes(packed), Compression.ZSTD.sys_flag)


def test_an_lz4_frame_may_have_blocks_of_any_size() -> None:
    body = bytes(range(256)) * 40_000
    for block_size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
        packed = lz4.frame.compress(body, block_size=block_size, content_checksum=True)
        assert decompress(packed, Compression.LZ4.sys_flag) == body


def test_an_lz4_frame_of_ours_has_independent_blocks_as_java_wants_it() -> None:
    packed = compress(bytes(1_000_000), Compression.LZ4)
    assert packed[4] & 0x20
