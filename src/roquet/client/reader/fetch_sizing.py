"""How many offsets one pull takes, as far as replies have shown: decisions only.

Brokers give less than is asked for, and do not say how much less: 32 messages or 256 KiB of what
is in memory, 8 or 64 KiB of what is on disk, other numbers if their operator says so. With a
filter they go on over what nobody wants, up to 800 offsets or more. Whoever wants many pulls on
their way has to believe in a number; what a reply falls short is asked for again.
"""

from typing import Final, Protocol, final

# The most messages of one pull, and their most bytes: more makes either side wait for the other.
# Only brokers of ours look at the bytes, and only for them do they give more than usual.
PULL_COUNT_MAX: Final = 4096
PULL_SIZE_MAX: Final = 352 * 1024

# A reply as large as this was ended by its size, and the next may hold a few messages less.
_ENDED_BY_SIZE_FROM: Final = 160 * 1024
_MARGIN_PART: Final = 8
_FULL_COUNT_TO_GROW: Final = 8
# With this few pulls to a filtered span, hardly any overshoots it for nothing.
_PULLS_OF_SPAN: Final = 8


class FetchEstimate(Protocol):
    @property
    def span_count(self) -> int:
        """How many offsets are given to one who pulls them one reply after the other."""

    def note(self, asked: int, brought: int, size: int) -> None:
        """A pull of `asked` offsets brought `brought` of them, in `size` bytes."""


@final
class FetchSizeEstimate:
    """Of all messages: a pull brings as many as it asks for, or as many as the broker gives."""

    def __init__(self) -> None:
        self.span_count = PULL_COUNT_MAX
        self._full_count = 0

    def note(self, asked: int, brought: int, size: int) -> None:
        if brought < asked:
            self._full_count = 0
            margin = brought // _MARGIN_PART if size >= _ENDED_BY_SIZE_FROM else 0
            self.span_count = max(1, brought - margin)
            return
        self._full_count += 1
        # Maybe messages are smaller now, or in memory. Twice as many cost no more pulls if not.
        if self._full_count >= _FULL_COUNT_TO_GROW and 2 * size <= PULL_SIZE_MAX:
            self._full_count = 0
            self.span_count = min(2 * self.span_count, PULL_COUNT_MAX)


@final
class FilteredFetchEstimate:
    """Of messages that pass a filter: a pull goes on over any number of offsets."""

    def __init__(self) -> None:
        self._advance: int | None = None

    @property
    def span_count(self) -> int:
        return PULL_COUNT_MAX if self._advance is None else _PULLS_OF_SPAN * self._advance

    def note(self, asked: int, brought: int, size: int) -> None:  # noqa: ARG002
        old = self._advance
        self._advance = max(1, brought if old is None else (3 * old + brought) // 4)
