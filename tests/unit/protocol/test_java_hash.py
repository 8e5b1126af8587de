"""Java hashes: known values, and one against many."""

import numpy as np
import pytest

from roquet.protocol.java_hash import index_hash, index_hashes, java_hash, java_hashes

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


def test_many_texts_hash_like_each_of_them() -> None:
    assert java_hashes(list(KNOWN)).tolist() == list(KNOWN.values())
    ascii_only = {text: code for text, code in KNOWN.items() if text.isascii()}
    assert java_hashes(list(ascii_only)).tolist() == list(ascii_only.values())


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["", "a", ""], ["a", "", "a"]])
def test_empty_texts_hash_to_zero_wherever_they_stand(texts: list[str]) -> None:
    assert java_hashes(texts).tolist() == [97 if text else 0 for text in texts]


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


def test_many_index_hashes_equal_each_of_them() -> None:
    hashes = index_hashes(java_hashes(list(KNOWN)))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [index_hash(text) for text in KNOWN]
