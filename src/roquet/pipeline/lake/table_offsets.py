"""The offsets that a table has, as names and numbers that one commit sets with its files. Pure.

    name                                      number
    orders@broker-a@0                         the end of the queue in the table; two writers of the
                                              same queue both write it, so one of them is refused
    orders@broker-a@0#range#GENERATION#START  the end of the range from START on; it grows in place
    orders@broker-a@0#first, ...#born         the queue as its broker described it last
    orders#reprocessed#STEP#QUEUE#START       rows that a step took from the quarantine: from START
                                              to before the number, in queues of that number
    #abandoned#STEP                           a step that was interrupted, and will not be completed

A Delta table has them as application transactions, an Iceberg table in one of its properties.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.entries import LakePiece, QueueIncarnation
from roquet.pipeline.lake.state import SNAPSHOT_VERSION, LakeSnapshot, LakeState, QueueSnapshot
from roquet.pipeline.queue_offsets import queue_key, queue_of_key

_MARK: Final = "#"
_RANGE: Final = "range"
_FIRST: Final = "first"
_BORN: Final = "born"
_REPROCESSED: Final = "reprocessed"
_ABANDONED: Final = "abandoned"


def state_of(offsets: Mapping[str, int], number: int, body_schema: str | None = None) -> LakeState:
    """The ranges that a table has, without its files."""
    queues: list[QueueSnapshot] = []
    described: dict[str, dict[str, int]] = {}
    generations: dict[str, int] = {}
    for name, offset in offsets.items():
        key, _, rest = name.partition(_MARK)
        kind, *numbers = rest.split(_MARK)
        if kind == _RANGE:
            generation, start = map(int, numbers)
            queues.append(QueueSnapshot(*queue_of_key(key), generation, [(start, offset)]))
            generations[key] = max(generation, generations.get(key, 0))
        elif kind in (_FIRST, _BORN):
            described.setdefault(key, {})[kind] = offset
    return LakeState.of(
        LakeSnapshot(
            version=SNAPSHOT_VERSION,
            number=number,
            rows=0,
            files=[],
            quarantined=[],
            queues=queues,
            incarnations=[
                (*queue_of_key(key), generation, _incarnation(described.get(key, {})))
                for key, generation in generations.items()
            ],
            body_schema=body_schema,
        )
    )


class ReprocessedRange(NamedTuple):
    """Rows of a topic that a step took from the quarantine, at a queue of any broker."""

    topic: str
    step: str
    queue_id: int
    start: int
    end: int

    @classmethod
    def read(cls, name: str, number: int) -> Self | None:
        """None if the name is another one's."""
        key, _, rest = name.partition(_MARK)
        kind, *parts = rest.split(_MARK)
        if kind != _REPROCESSED:
            return None
        step, queue_id, start = parts
        return cls(key, step, int(queue_id), int(start), number)

    @property
    def name(self) -> str:
        parts = (self.topic, _REPROCESSED, self.step, str(self.queue_id), str(self.start))
        return _MARK.join(parts)


def reprocessed_ranges(offsets: Mapping[str, int]) -> set[ReprocessedRange]:
    found = (ReprocessedRange.read(name, number) for name, number in offsets.items())
    return {each for each in found if each is not None}


def abandoned_steps(offsets: Iterable[str]) -> set[str]:
    head = abandoned_name("")
    return {name.removeprefix(head) for name in offsets if name.startswith(head)}


def abandoned_name(step: str) -> str:
    return f"{_MARK}{_ABANDONED}{_MARK}{step}"


def _incarnation(described: Mapping[str, int]) -> QueueIncarnation:
    return QueueIncarnation(described.get(_FIRST), described.get(_BORN))


def changed_offsets(offsets: Mapping[str, int], pieces: Iterable[LakePiece]) -> dict[str, int]:
    """What a commit of the pieces sets, of which `offsets` have nothing."""
    ends: dict[tuple[QueueRef, int], dict[int, str]] = {}
    for name, end in offsets.items():
        key, _, rest = name.partition(_MARK)
        kind, *numbers = rest.split(_MARK)
        if kind == _RANGE:
            ends.setdefault((queue_of_key(key), int(numbers[0])), {})[end] = name
    changed: dict[str, int] = {}
    for piece in sorted(pieces, key=lambda each: (each.queue_ref, each.generation, each.start)):
        key = queue_key(piece.queue_ref)
        of_queue = ends.setdefault((piece.queue_ref, piece.generation), {})
        new = _MARK.join((key, _RANGE, str(piece.generation), str(piece.start)))
        # A range that ends where the piece starts grows; else a new one starts here.
        name = of_queue.pop(piece.start, new)
        of_queue[piece.end] = name
        changed[name] = piece.end
        changed[key] = max(piece.end, changed.get(key, offsets.get(key, 0)))
        if piece.incarnation.born_ms is not None:
            changed[f"{key}{_MARK}{_BORN}"] = piece.incarnation.born_ms
            changed[f"{key}{_MARK}{_FIRST}"] = piece.incarnation.first_offset or 0
    return changed
