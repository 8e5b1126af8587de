"""What an account may do with a topic or a group, in the words of Apache's `plain_acl.yml`."""

from enum import IntFlag
from typing import Final

from roquet.protocol.errors import BadRight


class Right(IntFlag):
    """An owner has all of its bits; who needs several is content with one of them."""

    DENY = 0
    PUB = 1
    SUB = 2

    def suffices_for(self, needed: "Right") -> bool:
        return bool(self & needed)


EITHER: Final = Right.PUB | Right.SUB

_WORDS: Final = {
    "DENY": Right.DENY,
    "PUB": Right.PUB,
    "SUB": Right.SUB,
    "PUB|SUB": EITHER,
    "SUB|PUB": EITHER,
}


def read_right(text: str) -> Right:
    """Raises BadRight. Apache takes every other word for DENY; a misspelled right is a mistake."""
    right = _WORDS.get(text.strip())
    if right is None:
        raise BadRight(text)
    return right
