"""Files of a lake: which ranges of offsets they hold, how they are cut, and their names. Pure.

Files are cut at multiples of `file_rows_max`, which the lake keeps, so where they start and end
depends neither on the number of tasks nor on how much a batch takes, except at its ends. Names are
derived from content: the same messages get the same name.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, final
from urllib.parse import quote, unquote
from uuid import uuid4

from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.planning import QueueRange

# From the first offset to before the second.
OffsetRange = tuple[int, int]


class MissingRange(NamedTuple):
    """A range that the lake lacks, and which generation of the queue it belongs to."""

    range: QueueRange
    generation: int
    incarnation: QueueIncarnation


def split_into_files(wanted: Iterable[MissingRange], file_rows_max: int) -> Iterator[MissingRange]:
    """The same offsets, none of the ranges across a multiple of `file_rows_max`."""
    for each in wanted:
        queue, start, end = each.range
        while start < end:
            cut = min(end, (start // file_rows_max + 1) * file_rows_max)
            yield each._replace(range=QueueRange(queue, start, cut))
            start = cut


def balanced(file_ranges: Sequence[MissingRange], count: int) -> list[list[MissingRange]]:
    """The ranges, each of them whole, in at most `count` shares of nearly the same size.

    The largest are assigned first, each to the smallest share; within a share they are in the
    order of brokers and offsets.
    """
    shares: list[list[MissingRange]] = [[] for _ in range(min(count, len(file_ranges)))]
    sizes = [0] * len(shares)
    for file_range in sorted(file_ranges, key=lambda each: (-each.range.row_count, each.range)):
        least = sizes.index(min(sizes))
        shares[least].append(file_range)
        sizes[least] += file_range.range.row_count
    return [sorted(share, key=_by_broker) for share in shares]


def _by_broker(file_range: MissingRange) -> tuple[str, str, int, int]:
    queue = file_range.range.queue
    return queue.broker_name, queue.topic, queue.queue_id, file_range.range.start


@final
class OffsetRanges:
    """Ranges that do not touch each other, in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[OffsetRange]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def count(self) -> int:
        """The number of offsets in them."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> bool:
        """Add a range. False, and nothing changes, if part of it is there already."""
        if start >= end:
            return True
        index = bisect_left(self._starts, start)
        if index < len(self._starts) and self._starts[index] < end:
            return False
        if index and self._ends[index - 1] > start:
            return False
        if index and self._ends[index - 1] == start:
            index -= 1
            self._ends[index] = end
        else:
            self._starts.insert(index, start)
            self._ends.insert(index, end)
        if index + 1 < len(self._starts) and self._starts[index + 1] == end:
            self._ends[index] = self._ends.pop(index + 1)
            self._starts.pop(index + 1)
        return True

    def missing(self, start: int, end: int) -> list[OffsetRange]:
        """The parts of a range that are not there, in order."""
        found: list[OffsetRange] = []
        index = max(0, bisect_left(self._starts, start) - 1)
        while start < end and index < len(self._starts) and self._starts[index] < end:
            if start < self._starts[index]:
                found.append((start, self._starts[index]))
            start = max(start, self._ends[index])
            index += 1
        if start < end:
            found.append((start, end))
        return found


CONTROL_DIRECTORY: Final = "_roquet"
SETTINGS_FILE: Final = f"{CONTROL_DIRECTORY}/lake.json"
STAGED_DIRECTORY: Final = f"{CONTROL_DIRECTORY}/staged"
PARTITIONING: Final = ("topic", "dt", "hour")
# Of tables whose format hides it: readers filter by time, and know no further column.
HIDDEN_PARTITIONING: Final = ("topic", "hours(storeTimestamp)")
# Of the newest rows by key, whose hours change all the time.
LATEST_PARTITIONING: Final = ("topic",)
_time_partition = re.compile(r"(hour|day|month|year)s?\(storeTimestamp\)").fullmatch
_HOUR_S: Final = 3600
_HOUR_MS: Final = 3_600_000
_moving_in = re.compile(r"/moving-(?P<step>[0-9a-f]{32})-[0-9a-f]{32}\.parquet$").search
_hour_in = re.compile(r"/dt=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/").search


def published_path(wanted: MissingRange, start: int, end: int, hour: int) -> str:
    """Below the lake, for messages stored in an hour that is counted from 1970, in UTC."""
    queue = wanted.range.queue
    moment = datetime.fromtimestamp(hour * _HOUR_S, UTC)
    name = f"{_escaped(queue.topic)}-{_escaped(queue.broker_name)}-{queue.queue_id}-{start}-{end}"
    if wanted.generation:
        name += f"-g{wanted.generation}"
    return f"topic={_escaped(queue.topic)}/dt={moment:%Y-%m-%d}/hour={moment:%H}/{name}.parquet"


def compacted_path(directory: str, entry_number: int, index: int) -> str:
    """Of a file that the entry compacts others into; no piece has such a name."""
    topic = directory.partition("/")[0].removeprefix("topic=")
    return f"{directory}/{topic}-joined-{entry_number}-{index}.parquet"


def table_path(wanted: MissingRange, start: int, hour: int) -> str:
    """Below a table, of a file that nothing overwrites: two attempts of a task have two names.

    Tables list their files by URIs, in which a percent sign has a meaning: it is written as `~`,
    which topics cannot have.
    """
    queue = wanted.range.queue
    moment = datetime.fromtimestamp(hour * _HOUR_S, UTC)
    topic, broker = (_escaped(name).replace("%", "~") for name in (queue.topic, queue.broker_name))
    name = f"{broker}-{queue.queue_id}-{start}-{uuid4().hex}"
    return f"topic={topic}/dt={moment:%Y-%m-%d}/hour={moment:%H}/{name}.parquet"


def compacted_table_path(directory: str) -> str:
    """As `table_path`, of a file that others are compacted into."""
    return f"{directory}/compacted-{uuid4().hex}.parquet"


def reprocessed_path(directory: str) -> str:
    """Of messages that were in the quarantine; of a lake of any format."""
    return f"{directory}/reprocessed-{uuid4().hex}.parquet"


def moving_path(directory: str, step: str) -> str:
    """Of rows that leave the quarantine by that step."""
    return f"{directory}/moving-{step}-{uuid4().hex}.parquet"


def step_of(path: str) -> str | None:
    """By which rows of the file leave the quarantine, or left it; None of any other file."""
    found = _moving_in(path)
    return found["step"] if found else None


def rewritten_table_path(path: str) -> str:
    """Of a file with other rows of the same place."""
    return f"{path.rpartition('-')[0]}-{uuid4().hex}.parquet"


class KeyBucket(NamedTuple):
    """Keys of a topic, by their hash: part `number` of `total`."""

    topic: str
    number: int
    total: int

    @property
    def path(self) -> str:
        """A new one each time, as `table_path`; a file with other keys has another name."""
        topic = _escaped(self.topic).replace("%", "~")
        return f"topic={topic}/latest-{self.number}-{self.total}-{uuid4().hex}.parquet"


def bucket_of(path: str) -> KeyBucket:
    """Raises ValueError for a file that has no keys of one bucket."""
    _, number, total, _ = path.rpartition("/")[2].split("-")
    return KeyBucket(topic_of(path), int(number), int(total))


def hidden_partitioning(text: str) -> tuple[str, ...] | None:
    """Of `topic, days(storeTimestamp)`, both optional; None if files are not divided like that."""
    parts = [part.strip() for part in text.split(",")]
    times = [found for part in parts if (found := _time_partition(part))]
    if len(times) > 1 or len(parts) > 2 or set(parts) - {each[0] for each in times} - {"topic"}:
        return None
    # Files have one topic each, and do not have it as a column.
    return ("topic", *(f"{each[1]}s(storeTimestamp)" for each in times))


def column_partitioning(text: str) -> tuple[str, ...] | None:
    """Of `topic, dt`: the first columns of `PARTITIONING`; None if they are others."""
    parts = tuple(part.strip() for part in text.split(","))
    return parts if parts == PARTITIONING[: len(parts)] else None


def time_partition(partitioning: Iterable[str]) -> str | None:
    """`hours`, `days`, `months` or `years`."""
    found = [part.partition("(")[0] for part in partitioning if part.endswith("(storeTimestamp)")]
    return found[0] if found else None


def topic_of(path: str) -> str:
    """Of a file below a lake."""
    return partition_values(path.partition("/")[0])["topic"]


def directory_of(path: str) -> str:
    """Below the lake: one for each topic and hour."""
    return path.rpartition("/")[0]


def hour_of(directory: str) -> int:
    """The hour, counted from 1970, in which the messages of a directory were stored."""
    values = partition_values(directory)
    moment = datetime.strptime(f"{values['dt']} {values['hour']} +0000", "%Y-%m-%d %H %z")
    return int(moment.timestamp()) // _HOUR_S


def partition_values(directory: str) -> dict[str, str]:
    """Topic, date and hour, from the names of directories."""
    pairs = (part.partition("=") for part in directory.split("/"))
    return {name: unquote(value.replace("~", "%")) for name, _, value in pairs}


def in_hours(paths: Iterable[str], start_ms: int | None, end_ms: int | None) -> list[str]:
    """The files of a lake that may have messages stored in that time."""
    found = []
    for path in paths:
        hour = _hour_in(f"/{path}")
        if hour is not None:
            hour_start = datetime.fromisoformat(f"{hour[1]}T{hour[2]}:00:00+00:00")
            hour_start_ms = round(hour_start.timestamp() * 1000)
            is_before = start_ms is not None and hour_start_ms + _HOUR_MS <= start_ms
            is_after = end_ms is not None and hour_start_ms >= end_ms
            if is_before or is_after:
                continue
        found.append(path)
    return found


def quarantine_of(lake: Path) -> Path:
    """Beside the lake, where its readers do not find it."""
    return lake.with_name(f"{lake.name}-quarantine")


def staged_path(run: str) -> str:
    """A new one each time: two attempts of a task do not disturb each other.

    Readers that look for Parquet skip what is below `_`, or what does not end in `.parquet`.
    """
    return f"{STAGED_DIRECTORY}/{run}/{uuid4().hex}.staged"


def _escaped(name: str) -> str:
    """As in Hive. Readers skip files that start with `_` or `.`."""
    text = quote(name, safe="")
    return f"%{ord(text[0]):02X}{text[1:]}" if text[0] in "_." else text
