"""The application transactions of a Delta table, from its log: which ranges of queues it has.

    app id                                    version
    orders@broker-a@0                         the end of the queue in the table; two writers of the
                                              same queue both write it, so one of them is refused
    orders@broker-a@0#range#GENERATION#START  the end of the range from START on; it grows in place
    orders@broker-a@0#first, ...#born         the queue as its broker described it last

The library answers for one app id at a time, and reads the log again for each; here the log is read
once, from its last checkpoint on, and then what was added.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, final

import pyarrow.parquet as pq

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import LakePiece, QueueIncarnation
from roquet.pipeline.lake.places import Storage
from roquet.pipeline.lake.state import SNAPSHOT_VERSION, LakeSnapshot, LakeState, QueueSnapshot
from roquet.pipeline.queue_offsets import queue_key, queue_of_key

_LOG: Final = "_delta_log"
_MARK: Final = "#"
_RANGE: Final = "range"
_FIRST: Final = "first"
_BORN: Final = "born"
_READERS: Final = 16


@final
class DeltaTransactions:
    """Versions by app id, as of a version of the table."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._version = -1
        self.versions: dict[str, int] = {}

    def read_to(self, version: int) -> None:
        """Raises BadLake, and FileNotFoundError for an entry that was cleaned up."""
        if self._version < 0:
            self._read_checkpoint(version)
        numbers = range(self._version + 1, version + 1)
        with ThreadPoolExecutor(_READERS) as pool:
            for content in pool.map(self._read_entry, numbers):
                self.versions.update(_transactions(content))
        self._version = version

    def _read_entry(self, number: int) -> bytes:
        return self._storage.read(f"{_LOG}/{number:020}.json")

    def _read_checkpoint(self, version: int) -> None:
        try:
            last = json.loads(self._storage.read(f"{_LOG}/_last_checkpoint"))
        except (FileNotFoundError, ValueError):
            return
        if last["version"] > version:
            return
        for name in _checkpoint_names(last):
            path = self._storage.path(f"{_LOG}/{name}")
            table = pq.read_table(path, columns=["txn"], filesystem=self._storage.filesystem)
            for each in table["txn"].drop_null().to_pylist():
                if each["appId"] is not None:
                    self.versions[each["appId"]] = each["version"]
        self._version = last["version"]


def _checkpoint_names(last: Mapping[str, Any]) -> list[str]:
    """Of one file, or of as many as it has parts. Raises BadLake."""
    number, parts = last["version"], last.get("parts")
    if last.get("v2Checkpoint"):
        raise BadLake(
            f"checkpoint {number} of the Delta table has version 2, which Roquet cannot read: write"
            " one of version 1 (delta.checkpointPolicy=classic)"
        )
    if not parts:
        return [f"{number:020}.checkpoint.parquet"]
    return [
        f"{number:020}.checkpoint.{part:010}.{parts:010}.parquet" for part in range(1, parts + 1)
    ]


def _transactions(content: bytes) -> Iterator[tuple[str, int]]:
    for line in content.splitlines():
        if b'"txn"' in line and (found := json.loads(line).get("txn")):
            yield found["appId"], found["version"]


def state_of(versions: Mapping[str, int], number: int, json_schema: str | None = None) -> LakeState:
    """The ranges that a table has, without its files."""
    queues: list[QueueSnapshot] = []
    described: dict[str, dict[str, int]] = {}
    generations: dict[str, int] = {}
    for app_id, version in versions.items():
        key, _, rest = app_id.partition(_MARK)
        kind, *numbers = rest.split(_MARK)
        if kind == _RANGE:
            generation, start = map(int, numbers)
            queues.append(QueueSnapshot(*queue_of_key(key), generation, [(start, version)]))
            generations[key] = max(generation, generations.get(key, 0))
        elif kind in (_FIRST, _BORN):
            described.setdefault(key, {})[kind] = version
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
            json_schema=json_schema,
        )
    )


def _incarnation(described: Mapping[str, int]) -> QueueIncarnation:
    return QueueIncarnation(described.get(_FIRST), described.get(_BORN))


def versions_with(versions: Mapping[str, int], pieces: Iterable[LakePiece]) -> dict[str, int]:
    """What a commit of the pieces sets, of which `versions` have nothing."""
    ends: dict[tuple[QueueRef, int], dict[int, str]] = {}
    for app_id, end in versions.items():
        key, _, rest = app_id.partition(_MARK)
        kind, *numbers = rest.split(_MARK)
        if kind == _RANGE:
            ends.setdefault((queue_of_key(key), int(numbers[0])), {})[end] = app_id
    changed: dict[str, int] = {}
    for piece in sorted(pieces, key=lambda each: (each.queue_ref, each.generation, each.start)):
        key = queue_key(piece.queue_ref)
        of_queue = ends.setdefault((piece.queue_ref, piece.generation), {})
        new = _MARK.join((key, _RANGE, str(piece.generation), str(piece.start)))
        # A range that ends where the piece starts grows; else a new one starts here.
        app_id = of_queue.pop(piece.start, new)
        of_queue[piece.end] = app_id
        changed[app_id] = piece.end
        changed[key] = max(piece.end, changed.get(key, versions.get(key, 0)))
        if piece.incarnation.born_ms is not None:
            changed[f"{key}{_MARK}{_BORN}"] = piece.incarnation.born_ms
            changed[f"{key}{_MARK}{_FIRST}"] = piece.incarnation.first_offset or 0
    return changed
