"""A store directory with many small messages of one topic, written without any broker.

Its records have no checksums, as Apache writes them, so both brokers can open it.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roquet.protocol.messages.record import MAGIC_BLANK
from tests.support.drafts import draft
from tests.support.records import record_of

TOPIC: Final = "bench"
QUEUE_COUNT: Final = 4
_LOG_FILE_SIZE: Final = 1 << 30
_BLANK_SIZE_MIN: Final = 8
_QUEUE_FILE_COUNT: Final = 300_000  # entries, as Apache has them by default
_ENTRY_SIZE: Final = 20
_WRITTEN_COUNT: Final = 400_000  # records at a time
# Where a record has its numbers; see `record.py`.
_QUEUE_ID_AT, _QUEUE_OFFSET_AT, _PHYSICAL_OFFSET_AT = 12, 20, 28


def write_store(root: Path, count: int, log_file_size: int = _LOG_FILE_SIZE) -> None:
    """`count` messages in turns through all queues; `root` is made."""
    record = np.frombuffer(record_of(draft(b"x", topic=TOPIC, has_checksum=False)), np.uint8)
    per_file = (log_file_size - _BLANK_SIZE_MIN) // len(record)
    numbers = np.arange(count, dtype=np.int64)
    physical_offsets = numbers // per_file * log_file_size + numbers % per_file * len(record)
    for first in range(0, count, per_file):
        some = numbers[first : first + per_file]
        _write_log_file(root, record, some, physical_offsets, log_file_size)
    for queue_id in range(QUEUE_COUNT):
        _write_queue(
            root / "consumequeue" / TOPIC / str(queue_id),
            physical_offsets[queue_id::QUEUE_COUNT],
            len(record),
        )


def _write_log_file(
    root: Path,
    record: NDArray[np.uint8],
    numbers: NDArray[np.int64],
    physical_offsets: NDArray[np.int64],
    size: int,
) -> None:
    directory = root / "commitlog"
    directory.mkdir(parents=True, exist_ok=True)
    start = int(physical_offsets[numbers[0]])
    with (directory / f"{start:020d}").open("wb") as file:
        for first in range(0, len(numbers), _WRITTEN_COUNT):
            some = numbers[first : first + _WRITTEN_COUNT]
            records = np.tile(record, (len(some), 1))
            _put(records, _QUEUE_ID_AT, (some % QUEUE_COUNT).astype(">i4"))
            _put(records, _QUEUE_OFFSET_AT, (some // QUEUE_COUNT).astype(">i8"))
            _put(records, _PHYSICAL_OFFSET_AT, physical_offsets[some].astype(">i8"))
            file.write(records.data)
        is_full = numbers[-1] + 1 < len(physical_offsets)
        if is_full:
            rest = size - file.tell()
            file.write(rest.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True))
        file.truncate(size)


def _write_queue(directory: Path, physical_offsets: NDArray[np.int64], record_size: int) -> None:
    directory.mkdir(parents=True)
    for first in range(0, len(physical_offsets), _QUEUE_FILE_COUNT):
        some = physical_offsets[first : first + _QUEUE_FILE_COUNT]
        entries = np.zeros((len(some), _ENTRY_SIZE), np.uint8)
        _put(entries, 0, some.astype(">i8"))
        _put(entries, 8, np.full(len(some), record_size).astype(">i4"))
        with (directory / f"{first * _ENTRY_SIZE:020d}").open("wb") as file:
            file.write(entries.data)
            file.truncate(_QUEUE_FILE_COUNT * _ENTRY_SIZE)


def _put(rows: NDArray[np.uint8], at: int, values: NDArray[Any]) -> None:
    """Numbers into every row, as they lie in memory."""
    size = values.dtype.itemsize
    rows[:, at : at + size] = values.view(np.uint8).reshape(-1, size)
