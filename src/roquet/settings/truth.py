"""Yes and no, as Java reads them from a file: "true" in any case is true, all else is false."""

from typing import Final

_PLAIN_TRUTHS: Final = ("true", "false")


def read_truth(text: str) -> bool:
    return text.strip().lower() == "true"


def truth_text(value: bool) -> str:
    return "true" if value else "false"


def is_plain_truth(text: str) -> bool:
    """Whether somebody meant what is read: "yes" and "1" are false, and hardly meant so."""
    return text.strip().lower() in _PLAIN_TRUTHS
