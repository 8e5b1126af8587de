"""The state of a lake: its log replayed entry by entry. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Self, final

import msgspec

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake, PlanOutdated
from roquet.pipeline.lake.entries import (
    Compaction,
    LakeEntry,
    LakeFile,
    LakePiece,
    QueueIncarnation,
    Reprocessed,
)
from roquet.pipeline.lake.files import MissingRange, OffsetRange, OffsetRanges
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_offsets import queue_key

SNAPSHOT_VERSION: Final = 1


@final
class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    broker: str
    queue: int
    generation: int
    ranges: list[OffsetRange]


@final
class LakeSnapshot(msgspec.Struct, frozen=True):
    """A state after entry `number`, as it is stored. Files are path, rows and bytes."""

    version: int
    number: int
    rows: int
    files: list[tuple[str, int, int]]
    quarantined: list[tuple[str, int, int]]
    queues: list[QueueSnapshot]
    # The latest generation of queues that were created again, or that a broker described.
    incarnations: list[tuple[str, str, int, int, QueueIncarnation]]
    body_schema: str | None = msgspec.field(default=None, name="json_schema")


class Missing(NamedTuple):
    """What the lake lacks of a batch. `recreated` are queues with a new incarnation."""

    wanted: Sequence[MissingRange]
    recreated: Sequence[QueueRef]


class LakeTotals(NamedTuple):
    """What a lake has."""

    messages: int
    files: int
    quarantined: int


@final
class LakeState:
    """Changed by `apply` alone."""

    def __init__(self) -> None:
        self.entry_number = 0
        self.row_count = 0
        self.files: dict[str, LakeFile] = {}
        # Below the quarantine, beside the lake.
        self.quarantined_files: dict[str, LakeFile] = {}
        self.body_schema: str | None = None
        self._ranges: dict[tuple[QueueRef, int], OffsetRanges] = defaultdict(OffsetRanges)
        self._generations: dict[QueueRef, int] = {}
        self._incarnations: dict[QueueRef, QueueIncarnation] = {}

    @property
    def quarantined_count(self) -> int:
        """Messages that could not be decoded."""
        return sum(file.rows for file in self.quarantined_files.values())

    def apply(self, entry: LakeEntry) -> None:
        """Raises BadLake for an entry that does not follow the last one."""
        if entry.number != self.entry_number + 1:
            raise BadLake(f"entry {entry.number} of the log follows entry {self.entry_number}")
        for piece in entry.added:
            self._add(entry.number, piece)
        for compaction in entry.compacted:
            self._compact(entry.number, compaction)
        for moved in entry.reprocessed:
            self._move(entry.number, moved)
        self.body_schema = entry.body_schema or self.body_schema
        self.entry_number = entry.number

    def snapshot(self) -> LakeSnapshot:
        return LakeSnapshot(
            version=SNAPSHOT_VERSION,
            number=self.entry_number,
            rows=self.row_count,
            files=[(each.path, each.rows, each.bytes) for each in self.files.values()],
            quarantined=[
                (each.path, each.rows, each.bytes) for each in self.quarantined_files.values()
            ],
            queues=[
                QueueSnapshot(*queue, generation, list(ranges))
                for (queue, generation), ranges in self._ranges.items()
            ],
            incarnations=[
                (*queue, self._generations[queue], incarnation)
                for queue, incarnation in self._incarnations.items()
            ],
            body_schema=self.body_schema,
        )

    @classmethod
    def of(cls, snapshot: LakeSnapshot) -> Self:
        """Raises BadLake for a snapshot that another version wrote, or that contradicts itself."""
        if snapshot.version != SNAPSHOT_VERSION:
            raise BadLake(f"a snapshot of version {snapshot.version}, not {SNAPSHOT_VERSION}")
        state = cls()
        state.entry_number = snapshot.number
        state.row_count = snapshot.rows
        state.body_schema = snapshot.body_schema
        # Where they were staged is of interest only for the last entry.
        state.files = {path: LakeFile(path, "", rows, size) for path, rows, size in snapshot.files}
        state.quarantined_files = {
            path: LakeFile(path, "", rows, size) for path, rows, size in snapshot.quarantined
        }
        for each in snapshot.queues:
            ranges = state._ranges[QueueRef(each.topic, each.broker, each.queue), each.generation]
            if not all(ranges.add(*each_range) for each_range in each.ranges):
                raise BadLake(f"a snapshot with offsets of {each.topic!r} that overlap")
        for topic, broker, queue_id, generation, incarnation in snapshot.incarnations:
            queue = QueueRef(topic, broker, queue_id)
            state._generations[queue] = generation
            state._incarnations[queue] = incarnation
        return state

    def check_listed(self, compactions: Iterable[Compaction]) -> None:
        """Raises BadLake if the lake does not have the files that were compacted."""
        for compaction in compactions:
            gone = [path for path in compaction.removed if path not in self.files]
            if gone:
                raise BadLake(f"{gone[0]} was compacted by another process meanwhile")

    def check_quarantined(self, moved: Iterable[Reprocessed]) -> None:
        """Raises BadLake if the quarantine does not have the files that were read again."""
        if gone := [each.path for each in moved if each.path not in self.quarantined_files]:
            raise BadLake(f"{gone[0]} left the quarantine meanwhile, by another process")

    def check_new(self, pieces: Iterable[LakePiece]) -> None:
        """Raises BadLake if the lake has part of them, or if they overlap."""
        among_them: dict[tuple[QueueRef, int], OffsetRanges] = defaultdict(OffsetRanges)
        for piece in pieces:
            key = piece.queue_ref, piece.generation
            span = piece.start, piece.end
            is_new = self._ranges.get(key, OffsetRanges()).missing(*span) == [span]
            if not is_new or not among_them[key].add(*span):
                raise BadLake(
                    f"offsets {piece.start} to {piece.end} of {queue_key(piece.queue_ref)} would"
                    " be in the lake twice"
                )

    def ahead_of(self, other: "LakeState") -> list[LakePiece]:
        """The ranges that this one has and the other lacks, as pieces without files."""
        return [
            LakePiece(*queue, start, end, 0, 0, "", "", generation)
            for (queue, generation), ranges in self._ranges.items()
            for held in ranges
            for start, end in other.lacking_of(queue, generation, held)
        ]

    def lacking_of(self, queue: QueueRef, generation: int, held: OffsetRange) -> list[OffsetRange]:
        """What of a range it lacks."""
        return self._ranges.get((queue, generation), OffsetRanges()).missing(*held)

    def recreated_topics(self) -> set[str]:
        """Those with a queue that was deleted and created again."""
        return {queue.topic for queue, generation in self._ranges if generation}

    def lacking(self, pieces: Iterable[LakePiece]) -> list[LakePiece]:
        """Those of which the lake has nothing, without those that it has whole.

        Raises PlanOutdated for one of which it has a part.
        """
        found: list[LakePiece] = []
        for piece in pieces:
            key = piece.queue_ref, piece.generation
            missing = self._ranges.get(key, OffsetRanges()).missing(piece.start, piece.end)
            if missing == [(piece.start, piece.end)]:
                found.append(piece)
            elif missing:
                raise PlanOutdated(
                    f"another writer added part of offsets {piece.start} to {piece.end} of"
                    f" {queue_key(piece.queue_ref)} meanwhile"
                )
        return found

    def cut_where_held(self, wanted: Iterable[MissingRange]) -> list[MissingRange]:
        """The same offsets, each range held as a whole or not at all."""
        found: list[MissingRange] = []
        for each in wanted:
            queue, start, end = each.range
            ranges = self._ranges.get((queue, each.generation), OffsetRanges())
            inner = {bound for held in ranges for bound in held if start < bound < end}
            for first, last in pairwise(sorted({start, *inner, end})):
                found.append(each._replace(range=QueueRange(queue, first, last)))
        return found

    def _compact(self, number: int, compaction: Compaction) -> None:
        gone = [self.files.pop(path, None) for path in compaction.removed]
        if sum(each.rows for each in gone if each) != compaction.file.rows or None in gone:
            raise BadLake(
                f"entry {number} of the log compacts files into {compaction.file.path} that this"
                " lake does not have"
            )
        self.files[compaction.file.path] = compaction.file

    def _move(self, number: int, moved: Reprocessed) -> None:
        before = self.quarantined_files.pop(moved.path, None)
        left = moved.bad.rows if moved.bad else 0
        if before is None or before.rows != moved.good.rows + left:
            raise BadLake(
                f"entry {number} of the log takes rows from {moved.path}, which the quarantine of"
                " this lake does not have, or not so many"
            )
        self.files[moved.good.path] = moved.good
        self.row_count += moved.good.rows
        if moved.bad is not None:
            self.quarantined_files[moved.bad.path] = moved.bad

    def _add(self, number: int, piece: LakePiece) -> None:
        queue = piece.queue_ref
        if not self._ranges[queue, piece.generation].add(piece.start, piece.end):
            raise BadLake(
                f"entry {number} adds offsets {piece.start} to {piece.end} of {queue_key(queue)},"
                " but the lake has some of them"
            )
        self.row_count += piece.rows
        if piece.quarantined is not None:
            self.quarantined_files[piece.quarantined.path] = piece.quarantined
        if piece.file is not None:
            self.files[piece.path] = piece.file
        if (
            piece.generation > self._generations.get(queue, 0)
            or piece.incarnation.born_ms is not None
        ):
            self._generations[queue] = max(piece.generation, self._generations.get(queue, 0))
            self._incarnations[queue] = piece.incarnation

    def covered(self, queue: QueueRef, generation: int | None = None) -> list[tuple[int, int]]:
        """The ranges of a queue that the lake has, of its latest generation unless one is named."""
        if generation is None:
            generation = self._generations.get(queue, 0)
        return list(self._ranges.get((queue, generation), OffsetRanges()))

    def brokers_of(self, topic: str) -> set[str]:
        """The names of brokers whose messages the lake has."""
        return {queue.broker_name for queue, _ in self._ranges if queue.topic == topic}

    def incarnation_of(self, queue: QueueRef) -> QueueIncarnation:
        """As the queue was last described."""
        return self._incarnations.get(queue, QueueIncarnation())

    def queue_ends(self) -> dict[QueueRef, int]:
        """The queues that were ingested, with or without messages, and where they end for now."""
        ends: dict[QueueRef, int] = {}
        for (queue, _), ranges in self._ranges.items():
            ends[queue] = max([ends.get(queue, 0), *(end for _, end in ranges)])
        return ends

    def missing(
        self, ranges: Iterable[QueueRange], incarnations: Mapping[QueueRef, QueueIncarnation]
    ) -> Missing:
        """What of `ranges` the lake lacks; brokers describe the queues by `incarnations`."""
        wanted: list[MissingRange] = []
        recreated: list[QueueRef] = []
        for each in ranges:
            incarnation = incarnations.get(each.queue, QueueIncarnation())
            generation = self._generations.get(each.queue, 0)
            if self.incarnation_of(each.queue).is_replaced_by(incarnation):
                generation += 1
                recreated.append(each.queue)
            lacking = self._ranges.get((each.queue, generation), OffsetRanges())
            wanted += [
                MissingRange(QueueRange(each.queue, start, end), generation, incarnation)
                for start, end in lacking.missing(each.start, each.end)
            ]
        return Missing(wanted, recreated)
