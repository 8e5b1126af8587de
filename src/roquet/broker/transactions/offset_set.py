"""A set of offsets of one queue, a bit for each: a million of them cost 125 KB."""

from typing import Final, final

_FULL: Final = b"\xff"


@final
class OffsetSet:
    """Offsets from a start on, which only ever moves forward.

    It takes as much memory as the span from the start to the largest offset needs, so whoever
    adds an offset has made sure that the queue has one.
    """

    __slots__ = ("_bits", "_start")

    def __init__(self, start: int) -> None:
        self._start = start & ~7
        self._bits = bytearray()

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        index = offset - self._start
        return 0 <= index < len(self._bits) * 8 and bool(self._bits[index >> 3] & 1 << (index & 7))

    def add(self, offset: int) -> None:
        """What lies before the start is forgotten at once."""
        index = offset - self._start
        if index < 0:
            return
        missing = (index >> 3) + 1 - len(self._bits)
        if missing > 0:
            self._bits.extend(bytes(missing))
        self._bits[index >> 3] |= 1 << (index & 7)

    def next_absent(self, offset: int) -> int:
        """The first offset that is not in the set, from this one on."""
        while offset in self:
            if offset & 7 == 0:
                offset += 8 * self._full_bytes(offset - self._start >> 3)
            if offset in self:
                offset += 1
        return offset

    def count_from(self, offset: int) -> int:
        """How many there are, from this one on."""
        index = max(0, offset - self._start)
        # Counted in C: there may be a million.
        bits = int.from_bytes(self._bits[index >> 3 :], "little") >> (index & 7)
        return bits.bit_count()

    def forget_before(self, offset: int) -> None:
        """Moves the start, to this offset or a few before it."""
        count = max(0, offset - self._start >> 3)
        del self._bits[:count]
        self._start += 8 * count

    def _full_bytes(self, index: int) -> int:
        # Looked at in C: there may be a hundred thousand.
        rest = self._bits[index:]
        return len(rest) - len(rest.lstrip(_FULL))
