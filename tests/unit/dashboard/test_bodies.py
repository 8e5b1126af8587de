"""Bodies of all kinds become views of a bounded size."""

import pytest

from roquet.dashboard.bodies import HEX_SIZE_MAX, TEXT_LENGTH_MAX, BodyView, JsonNode, shown_body

TEXT, JSON, HEX = BodyView


def test_an_object_is_a_tree_unless_another_view_is_wanted() -> None:
    body = b'{"a": [1, "x"], "b": null}'
    found = shown_body(body, None)
    assert found.views == (JSON, TEXT, HEX)
    assert found.tree == JsonNode(
        None,
        "{2}",
        children=(
            JsonNode("a", "[2]", children=(JsonNode(None, "1"), JsonNode(None, "x", is_text=True))),
            JsonNode("b", "null"),
        ),
    )
    assert shown_body(body, "text").text == body.decode()
    assert shown_body(body, "nonsense").view is JSON


@pytest.mark.parametrize("body", [b"", b"plain", b'"just a text"', b"{broken", b"7"])
def test_what_is_no_object_is_text(body: bytes) -> None:
    assert shown_body(body, None).views == (TEXT, HEX)


def test_broken_utf8_is_hex() -> None:
    found = shown_body(b"\xff\xfeAB\n", None)
    assert found.views == (HEX,)
    assert found.text == "00000000  ff fe 41 42 0a" + " " * 35 + "..AB."


def test_large_bodies_are_cut() -> None:
    text = shown_body(b"x" * (4 << 20), None)
    assert (text.view, len(text.text), text.is_cut) == (TEXT, TEXT_LENGTH_MAX, True)
    binary = shown_body(b"\xff" * (4 << 20), None)
    assert binary.is_cut
    assert len(binary.text.splitlines()) == HEX_SIZE_MAX // 16


def test_many_members_and_deep_ones_are_cut() -> None:
    assert shown_body(b"[" + b"1," * 5000 + b"1]", None).is_cut
    assert shown_body(b"[" * 200 + b"]" * 200, None).is_cut
    assert shown_body(b"[" * 100_000 + b"]" * 100_000, None).view is TEXT
