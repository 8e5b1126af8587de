"""What is folded sixteen bytes at a time is what zlib makes byte by byte."""

from zlib import crc32

from hypothesis import given, strategies as st

from tests.support.drafts import draft


@given(body=st.binary(max_size=600), skipped=st.integers(0, 16))
def test_the_crc_of_a_body_is_that_of_zlib(body: bytes, skipped: int) -> None:
    # A view begins at any address, and not only where a register would like it to.
    part = memoryview(body)[min(skipped, len(body)) :]
    assert draft(part).body_crc == crc32(part) & 0x7FFFFFFF  # type: ignore[arg-type]


def test_the_crc_of_a_large_body_is_that_of_zlib() -> None:
    for size in (4096, 65_537, (1 << 20) + 31):
        body = bytes(number * 7 % 251 for number in range(size))
        assert draft(body).body_crc == crc32(body) & 0x7FFFFFFF
