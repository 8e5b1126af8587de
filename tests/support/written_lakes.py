"""Lakes as their log has them, without files of messages: for what reads logs alone."""

from pathlib import Path

from roquet.pipeline.durable_files import make_directories
from roquet.pipeline.lake.entries import ENTRY_VERSION, Compaction, LakeEntry, LakeFile, LakePiece
from roquet.pipeline.lake.metadata import LakeSettings, PublishLog, make_settings

PUBLISHED_MS = 1_767_225_600_000  # 2026-01-01T00:00Z


def new_lake(directory: Path) -> PublishLog:
    make_directories(directory)
    make_settings(directory, LakeSettings())
    return PublishLog(directory)


def piece(topic: str, queue: int, start: int, end: int) -> LakePiece:
    """Of broker-a, in a file of its own."""
    path = f"topic={topic}/{topic}-{queue}-{start}.parquet"
    return LakePiece(topic, "broker-a", queue, start, end, end - start, 1000, path, path)


def publish(log: PublishLog, *pieces: LakePiece) -> None:
    number = log.refresh().entry_number + 1
    log.append(LakeEntry(ENTRY_VERSION, number, PUBLISHED_MS + number, list(pieces)))


def compact(log: PublishLog, path: str) -> None:
    """All of its files into one."""
    state = log.refresh()
    rows = sum(each.rows for each in state.files.values())
    file = LakeFile(path, path, rows, 500)
    number = state.entry_number + 1
    compacted = [Compaction(list(state.files), file)]
    log.append(LakeEntry(ENTRY_VERSION, number, PUBLISHED_MS + number, compacted=compacted))
