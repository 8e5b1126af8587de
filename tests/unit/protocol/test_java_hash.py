"""Java hashes: known values."""

import pytest

from roquet.protocol.java_hash import index_hash, java_hash

KNOWN = {
    "": 0,
    "a": 97,
    "TagA": 2598919,
    "TagCreate": -1003302634,
    "TopicTest#order-1": -1829193424,
    "polygenelubricants": -(2**31),
    "é": 233,
    "😀": 1772899,  # 31 * 0xD83D + 0xDE00
    "\ud800": 0xD800,
}


@pytest.mark.parametrize(("text", "expected"), KNOWN.items())
def test_a_hash_is_what_java_computes(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a_long_text_hashes_like_the_definition() -> None:
    text = "key" * 1000
    expected = 0
    for character in text:
        expected = (31 * expected + ord(character)) % 2**32
    assert java_hash(text) % 2**32 == expected


def test_an_index_hash_is_never_negative() -> None:
    assert index_hash("TopicTest#order-1") == 1829193424
    assert index_hash("TagA") == 2598919
    assert index_hash("polygenelubricants") == 0
