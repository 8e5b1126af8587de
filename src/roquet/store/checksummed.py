"""Which ranges of the log were written with checksums: there, a missing one is damage.

A record without a checksum is as good as one with it: Apache 4.9 writes none, 5.x only when
told to, and a store may have belonged to both. But garbage over a checksum looks the same. Where
our own records lie is noted by `recovery/checksum_notes.py`.
"""

from typing import Final

import msgspec

# No log is longer.
NO_END: Final = 2**63 - 1


class ChecksumPart(msgspec.Struct, frozen=True):
    """Whether records must have checksums, and the physical offset up to which that is so."""

    must_have: bool
    end: int


class ChecksummedRanges(msgspec.Struct, frozen=True):
    """Picklable. Ranges of physical offsets, each from a start to before an end, ascending."""

    ranges: tuple[tuple[int, int], ...] = ()

    def part_at(self, physical_offset: int) -> ChecksumPart:
        for start, end in self.ranges:
            if physical_offset < start:
                return ChecksumPart(must_have=False, end=start)
            if physical_offset < end:
                return ChecksumPart(must_have=True, end=end)
        return ChecksumPart(must_have=False, end=NO_END)

    def touches(self, start: int, end: int) -> bool:
        """Whether any record between two offsets must have a checksum."""
        return any(max(start, first) < min(end, last) for first, last in self.ranges)


NOTHING_KNOWN: Final = ChecksummedRanges()
