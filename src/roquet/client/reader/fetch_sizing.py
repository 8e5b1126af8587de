"""How many offsets one pull returns, estimated from replies: decisions only.

Brokers return less than is asked for, and do not announce their limits: 32 messages or 256 KiB from
memory, 8 messages or 64 KiB from disk, other numbers if configured. With a filter they skip what
does not match, up to 800 offsets or more. To have many pulls in flight, the size of their replies
must be estimated; what a reply falls short is pulled again.
"""

from typing import Final, Protocol, final

# The most messages of one pull, and their most bytes: more makes either side wait for the other.
# Only our brokers read the byte limit, and return more than usual because of it.
PULL_COUNT_MAX: Final = 4096
PULL_SIZE_MAX: Final = 352 * 1024

# A reply as large as this was cut by its size, and the next one may have a few messages less.
_ENDED_BY_SIZE_FROM: Final = 160 * 1024
_MARGIN_PART: Final = 8
_FULL_COUNT_TO_GROW: Final = 8
# With so few pulls per filtered span, hardly any overshoots it in vain.
_PULLS_OF_SPAN: Final = 8


class FetchEstimate(Protocol):
    @property
    def span_count(self) -> int:
        """How many offsets a worker gets, to pull one reply after the other."""

    def note(self, asked: int, brought: int, size: int) -> None:
        """A pull of `asked` offsets returned `brought` of them, in `size` bytes."""


@final
class FetchSizeEstimate:
    """Without a filter: a pull returns as many as it asks for, or the limit of the broker."""

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
        # Messages may be smaller now, or in memory. If not, a doubled span costs no more pulls.
        if self._full_count >= _FULL_COUNT_TO_GROW and 2 * size <= PULL_SIZE_MAX:
            self._full_count = 0
            self.span_count = min(2 * self.span_count, PULL_COUNT_MAX)


@final
class FilteredFetchEstimate:
    """With a filter: a pull may advance over any number of offsets."""

    def __init__(self) -> None:
        self._advance: int | None = None

    @property
    def span_count(self) -> int:
        return PULL_COUNT_MAX if self._advance is None else _PULLS_OF_SPAN * self._advance

    def note(self, asked: int, brought: int, size: int) -> None:  # noqa: ARG002
        old = self._advance
        self._advance = max(1, brought if old is None else (3 * old + brought) // 4)
