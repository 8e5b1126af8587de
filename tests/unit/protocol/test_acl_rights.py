"""Rights in Apache's words."""

import pytest

from roquet.protocol.acl_rights import EITHER, Right, read_right
from roquet.protocol.errors import BadRight


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("DENY", Right.DENY),
        ("PUB", Right.PUB),
        (" SUB ", Right.SUB),
        ("PUB|SUB", EITHER),
        ("SUB|PUB", EITHER),
    ],
)
def test_five_words_are_rights(text: str, right: Right) -> None:
    assert read_right(text) == right


@pytest.mark.parametrize("text", ["", "pub", "PUB,SUB", "ANY", "PUB|"])
def test_other_words_are_mistakes(text: str) -> None:
    with pytest.raises(BadRight, match="is no right"):
        read_right(text)


def test_one_of_several_rights_is_enough_and_none_never_is() -> None:
    assert EITHER.suffices_for(Right.PUB)
    assert Right.SUB.suffices_for(EITHER)
    assert not Right.SUB.suffices_for(Right.PUB)
    assert not Right.DENY.suffices_for(EITHER)
