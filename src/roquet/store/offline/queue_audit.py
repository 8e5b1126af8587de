"""Whether the entries of a queue are what the log says: compared with those made from it anew.

Nothing is changed here, and nothing is read: entries come as arrays, of one file at a time.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from roquet.store.damage import DamagedRange
from roquet.store.queue_entry import BLANK_SIZE, ENTRY_SIZE

ENTRY_TYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert ENTRY_TYPE.itemsize == ENTRY_SIZE

Entries: TypeAlias = npt.NDArray[np.void]
_Mask: TypeAlias = npt.NDArray[np.bool_]


class EntryFault(NamedTuple):
    """Entries of a queue that are not right, from the first offset to the last."""

    first: int
    last: int
    reason: str


class LogExtent(msgspec.Struct, frozen=True):
    """What of the log was there when queues were made from it."""

    start: int
    end: int
    damages: Sequence[DamagedRange]
    # Otherwise its owner is going to complete the queues.
    is_closed: bool


def entry_faults(
    found: Entries, rebuilt: Entries, first_offset: int, extent: LogExtent
) -> Iterator[EntryFault]:
    """Compare entries that begin at the same offset, as many of one as of the other."""
    is_real = (rebuilt["size"] > 0) & ~_are_blank(rebuilt)
    is_empty = found == np.zeros(1, found.dtype)
    if extent.is_closed:
        yield from _runs(is_real & is_empty, first_offset, "missing")
    yield from _runs(
        is_real & ~is_empty & (found != rebuilt), first_offset, "not what the log says"
    )
    is_stray = ~is_real & ~is_empty & ~_is_excused(found, extent)
    yield from _runs(is_stray, first_offset, "of no record in the log")


def _is_excused(found: Entries, extent: LogExtent) -> _Mask:
    """Whether there is a reason why the log has no record for an entry."""
    offsets = found["physical_offset"]
    is_excused: _Mask = _are_blank(found) | (offsets < extent.start)
    if not extent.is_closed:
        is_excused |= offsets >= extent.end
    for damage in extent.damages:
        is_excused |= (offsets >= damage.start) & (offsets < damage.end)
    return is_excused


def _are_blank(entries: Entries) -> _Mask:
    found: _Mask = (entries["physical_offset"] == 0) & (entries["size"] == BLANK_SIZE)
    return found


def _runs(is_wrong: _Mask, first_offset: int, reason: str) -> Iterator[EntryFault]:
    """Neighbours are reported together."""
    edges = np.diff(is_wrong.astype(np.int8), prepend=0, append=0)
    starts = np.flatnonzero(edges > 0)
    ends = np.flatnonzero(edges < 0)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield EntryFault(first_offset + start, first_offset + end - 1, reason)
