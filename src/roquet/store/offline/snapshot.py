"""What there was to read in a store at one moment: a plain value that can be sent elsewhere.

`StoreReader.snapshot` takes one. Whoever has it reads the same messages, however often and in
however many parts, while the broker goes on writing: no queue is opened again, and nothing
past `log_end` is looked at.

The log is divided into segments. Each begins where a record is known to begin: at the start
of a file, or where an entry of a queue leads. What a segment holds is found by walking it
from there, so that no two readers can see it differently, wherever they begin and end, and
bytes inside a body that look like a record are never taken for one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roquet.store.checksummed import NOTHING_KNOWN, ChecksummedRanges
from roquet.store.offline.log_range import LogFile, Segment, StoreRange

# A record with this bit in its system flag was prepared or rolled back, and is in no queue.
IN_NO_QUEUE: Final = 0x4
# Clocks are set back and messages overtake each other, but hardly by more than this.
CLOCK_SLACK_MS: Final = 60_000

_start_of_segment = attrgetter("start")
_end_of_segment = attrgetter("end")


class QueueBounds(NamedTuple):
    """What makes a record a message of a queue, besides its topic and queue id."""

    # The offsets that the queue has.
    min_offset: int
    max_offset: int
    # What lies before it belonged to an earlier topic of the same name.
    first_physical_offset: int

    def holds(self, queue_offset: int, physical_offset: int, sys_flag: int) -> bool:
        return (
            self.min_offset <= queue_offset < self.max_offset
            and physical_offset >= self.first_physical_offset
            and not sys_flag & IN_NO_QUEUE
        )


class StoreSnapshot(msgspec.Struct, frozen=True):
    """Picklable, like all that comes out of it."""

    root: Path
    # Of the whole log; which of them are read is up to the segments.
    files: tuple[LogFile, ...]
    log_start: int
    log_end: int
    # Of the topics that were asked for, by topic and queue id.
    queues: dict[tuple[str, int], QueueBounds]
    # Queues of these topics that cannot be trusted. One that is not in `queues` cannot be read
    # at all, and its messages are missing; `roquet store repair` makes it again.
    broken_queues: tuple[tuple[str, int], ...]
    # In the order of the log, without those that hold nothing of what was asked for.
    segments: tuple[Segment, ...]
    # Where a record without a checksum is damaged.
    checksummed: ChecksummedRanges = NOTHING_KNOWN

    @property
    def size(self) -> int:
        """How many bytes there are to be read."""
        return sum(each.size for each in self.segments)

    def bounds(self, topic: str, queue_id: int) -> QueueBounds | None:
        """None for a queue that does not exist, or was not asked for: it has no messages."""
        return self.queues.get((topic, queue_id))

    def range(self, begin: int, end: int) -> StoreRange:
        """The records that begin between two physical offsets, which may be any.

        Ranges that are next to each other give every record once. One that begins inside a
        segment reads the segment from its start, and says nothing about what comes before.
        """
        first = bisect_right(self.segments, begin, key=_end_of_segment)
        last = bisect_left(self.segments, end, key=_start_of_segment) if begin < end else first
        return StoreRange(begin, end, self.segments[first:last], self.checksummed)

    def splits(self, split_size: int) -> list[tuple[int, int]]:
        """Ranges of about `split_size` bytes that together give everything.

        They are cut where segments begin, so nothing is read twice. Where a long part of the log
        has no place that a queue leads to, a range may be larger.
        """
        groups: list[tuple[int, int]] = []
        size = 0
        for segment in self.segments:
            if groups and size + segment.size <= split_size:
                groups[-1] = (groups[-1][0], segment.end)
                size += segment.size
            else:
                groups.append((segment.start, segment.end))
                size = segment.size
        return groups

    def between(self, begin_ms: int, end_ms: int) -> "StoreSnapshot":
        """Without the segments in which nothing was stored from one time to before another.

        Others stay whole: records are to be compared with the times one by one. A clock that
        went wrong for less than a segment takes, by more than CLOCK_SLACK_MS, is not noticed.
        """
        earliest, latest = _times_of(self.segments)
        kept = tuple(
            segment
            for segment, low, high in zip(self.segments, earliest, latest, strict=True)
            if high + CLOCK_SLACK_MS >= begin_ms and low - CLOCK_SLACK_MS < end_ms
        )
        return msgspec.structs.replace(self, segments=kept)


def _times_of(segments: Sequence[Segment]) -> tuple[list[float], list[float]]:
    """The earliest and the latest time at which something of each segment can be stored.

    It lies between the times at which the segment and the next one begin, unless a time after
    it is earlier, or one before it is later: then the clock was set, and both count.
    """
    times = [each.store_time for each in segments]
    begins = _filled(times, -inf)
    ends = [*_filled(times[::-1], inf)[::-1][1:], inf]
    earliest = list(accumulate(reversed(begins), min))[::-1]
    latest = list(map(max, accumulate(begins, max), ends))
    return earliest, latest


def _filled(times: Sequence[int | None], unknown: float) -> list[float]:
    """With the last known time in the place of those that are not known."""
    filled: list[float] = []
    for time in times:
        filled.append(time if time is not None else filled[-1] if filled else unknown)
    return filled
