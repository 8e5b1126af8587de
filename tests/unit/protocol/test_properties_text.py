import pytest

from roquet.protocol.errors import BadBody
from roquet.protocol.properties_text import read_properties_text, write_properties_text
from tests.support.golden_frames import golden_frames


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        (b"a=1\nb=2\n", {"a": "1", "b": "2"}),
        (b"a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"# no\n ! no\n\n \t\f\na=1 # yes", {"a": "1 # yes"}),
        (b"a = 1\nb : 2\nc 3\nd\t=\f4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        (b"a==1\nb:=2\nc= :3", {"a": "=1", "b": "=2", "c": ":3"}),
        (b"a\nb=\nc=1 \n=d", {"a": "", "b": "", "c": "1 ", "": "d"}),
        (b"a=1,\\\n   2,\\\r\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        (b"a=1\\\n#b=2", {"a": "1#b=2"}),
        (b"# no\\\na=1", {"a": "1"}),
        (b"a=1\\", {"a": "1"}),
        (b"\\\na=1", {"a": "1"}),
        (b"a\\ b\\=c\\:d=\\ e", {"a b=c:d": " e"}),
        (b"a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        (b"a=\\u00e9\\u00E9\\ud83d\\ude00", {"a": "éé😀"}),
        (b"a=\xe9", {"a": "é"}),
        (b"", {}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: bytes, entries: dict[str, str]) -> None:
    assert read_properties_text(text) == entries


@pytest.mark.parametrize("text", [b"a=\\u12", b"\\uxyzw=1", b"a=\\ud83d", b"a=\\ude00\\ud83d"])
def test_a_bad_escape_is_refused(text: bytes) -> None:
    with pytest.raises(BadBody):
        read_properties_text(text)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"a": "1", "b": "x y=z:#!"}, b"a=1\nb=x y=z:#!\n"),
        ({"#a b=c:d!": ""}, b"\\#a\\ b\\=c\\:d\\!=\n"),
        ({"a": "  b "}, b"a=\\  b \n"),
        ({"a": "\\\t\n\r\f\0é😀\x7f"}, b"a=\\\\\\t\\n\\r\\f\\u0000\\u00e9\\ud83d\\ude00\\u007f\n"),
    ],
)
def test_only_what_would_be_misread_is_escaped(entries: dict[str, str], text: bytes) -> None:
    assert write_properties_text(entries) == text
    assert read_properties_text(text) == entries


def test_golden_settings_are_written_as_java_writes_them() -> None:
    golden = [
        frame.command.body
        for frame in golden_frames()
        if frame.request_code in (25, 26, 318, 319) and frame.command.body
    ]
    assert len(golden) == 37
    for text in golden:
        entries = read_properties_text(text)
        assert all(name.isidentifier() for name in entries)
        assert write_properties_text(entries) == text
