"""A curve made of letters, as long as the list of its values."""

from collections.abc import Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """From nothing to the largest of them."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return _BARS[0] * len(values)
    top = len(_BARS) - 1
    return "".join(_BARS[round(max(0.0, value) / largest * top)] for value in values)
