"""Messages of one queue that were taken and are not finished: the book that commits look into.

Messages finish in any order. A group that starts again begins at the committed offset, so that
must not pass any message which is not finished:

    added        5   6   7  10  11     the broker filtered 8 and 9 out
    finished     5       7  10
    commit           6
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol, TypeVar, final


class _Sized(Protocol):
    @property
    def queue_offset(self) -> int: ...

    @property
    def size(self) -> int: ...


M = TypeVar("M", bound=_Sized)


@final
class OffsetBook:
    """Offsets and sizes of unfinished messages. It belongs to the event loop."""

    # One ordered dict, not a sorted structure: offsets come in order, and both its ends are
    # found at once, which those of a plain dict are not after removals.
    __slots__ = ("_sizes", "next_offset", "size")

    def __init__(self, start: int) -> None:
        # Everything before this offset was added, or was never there.
        self.next_offset = start
        self.size = 0
        self._sizes: OrderedDict[int, int] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._sizes)

    @property
    def commit_offset(self) -> int:
        """Where the group may start again without missing a message."""
        return next(iter(self._sizes), self.next_offset)

    @property
    def span(self) -> int:
        """From the first unfinished message to the last one."""
        sizes = self._sizes
        return next(reversed(sizes)) - next(iter(sizes)) if sizes else 0

    def add_all(self, messages: Iterable[M]) -> list[M]:
        """Those that are new: the reading was not beyond their offset already."""
        sizes = self._sizes
        next_offset = self.next_offset
        total_size = 0
        new: list[M] = []
        for message in messages:
            offset = message.queue_offset
            if offset < next_offset:
                continue
            next_offset = offset + 1
            sizes[offset] = size = message.size
            total_size += size
            new.append(message)
        self.next_offset = next_offset
        self.size += total_size
        return new

    def skip_to(self, offset: int) -> None:
        """No message of interest comes before this offset any more."""
        self.next_offset = max(self.next_offset, offset)

    def finish(self, offset: int) -> None:
        """For what is finished already, or was never added, it does nothing."""
        self.size -= self._sizes.pop(offset, 0)

    def finish_all(self, offsets: Iterable[int]) -> None:
        pop = self._sizes.pop
        self.size -= sum([pop(offset, 0) for offset in offsets])
