import pytest

from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.tags import tags_code_of


@pytest.mark.parametrize(
    ("properties", "tag"),
    [
        (b"", None),
        (b"KEYS\x01TAGS", None),
        (b"TAGS\x01a\x02", "a"),
        (b"KEYS\x01k\x02TAGS\x01a\x02b\x01c", "a"),
        (b"KEYS\x01k\x02XTAGS\x01a", None),
        (b"TAGS\x01a\x02TAGS\x01b", "b"),
        (b"TAGS\x01a\x02TAGS\x01\x02", "a"),
        (b"TAGS\x01a\x02TAGS\x01", "a"),
        (b"XTAGS\x01a", None),
        (b"TAGS\x01", None),
        (b"A\x01TAGS\x01b\x02", None),
        ("TAGS\x01ä€😀".encode(), "ä€😀"),
        (b"TAGS\x01\xff", "\ufffd"),
        (b"TAGS\x01" + b"z" * 300, "z" * 300),
    ],
)
def test_the_code_of_a_tag_is_its_java_hash(properties: bytes, tag: str | None) -> None:
    assert tags_code_of(properties) == (0 if tag is None else java_hash(tag))
