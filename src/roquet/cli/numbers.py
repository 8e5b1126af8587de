"""Numbers as options: which ones may be given."""

from argparse import ArgumentTypeError
from collections.abc import Callable


def whole_number(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """What reads such a number; it raises ArgumentTypeError."""
    expected = f"from {smallest} on" if largest is None else f"from {smallest} to {largest}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < smallest or (largest is not None and number > largest):
            raise ArgumentTypeError(f"{number} is not a number {expected}")
        return number

    return read


port_number = whole_number(0, 65535)
