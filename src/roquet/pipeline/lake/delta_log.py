"""The application transactions of a Delta table, from its log: which ranges of queues it has.

Their app ids and versions are the names and numbers of `table_offsets.py`. The library answers for
one app id at a time, and reads the log again for each; here the log is read once, from its last
checkpoint on, and then what was added.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, final

import pyarrow.parquet as pq

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.places import Storage

_LOG: Final = "_delta_log"
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
