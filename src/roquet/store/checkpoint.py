"""How far everything is known to be on disk: three store timestamps, and our synced end.

      0  int64  commit log: records up to this time are synced
      8  int64  consume queues
     16  int64  key index
     24  ...    4096 bytes in all; 5.x keeps more here, which is preserved
    488  int64  ours: all of the log before this physical offset is synced
    496  int64  the first timestamp, as it was then: a different one was written by another
                 owner, which may have cut the log and written something else
    504  int64  CRC-32 of the two

A value is written after the sync that it records, never before. The timestamps wait for the queues;
our end is written with each sync of the log and not synced itself: an older one is also true.
"""

from pathlib import Path
from struct import Struct
from typing import Final, final
from zlib import crc32

import msgspec

from roquet.disk import Disk, is_full

FILE_SIZE: Final = 4096
# A disk writes it as a whole or not at all.
_SECTOR_SIZE: Final = 512
# Store timestamps and syncs are not exactly in step; Apache allows the same.
MARGIN_MS: Final = 3_000
_LAYOUT: Final = Struct(">qqq")
_DURABLE: Final = Struct(">qq")
_CRC: Final = Struct(">q")
_DURABLE_AT: Final = _SECTOR_SIZE - _DURABLE.size - _CRC.size


class Checkpoint(msgspec.Struct, frozen=True):
    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0
    # The physical offset before which all of the log is synced; 0 if unknown.
    durable_end: int = 0

    @property
    def recovery_timestamp(self) -> int:
        """Everything stored up to here is complete in the log and in the queues."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - MARGIN_MS)


@final
class CheckpointFile:
    """Created at the first write, and kept open: descriptors may be scarce later."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._descriptor: int | None = None
        self._value = Checkpoint()

    def load(self) -> Checkpoint:
        self._value = load_checkpoint(self._disk, self._path)
        return self._value

    def save(self, checkpoint: Checkpoint) -> None:
        """Return when it survives a power cut. Raises OSError."""
        descriptor = self._opened()
        sector = bytearray(self._disk.read(descriptor, 0, _SECTOR_SIZE).ljust(_SECTOR_SIZE, b"\0"))
        _LAYOUT.pack_into(
            sector,
            0,
            checkpoint.log_timestamp,
            checkpoint.queue_timestamp,
            checkpoint.index_timestamp,
        )
        if checkpoint.durable_end or self._value.durable_end:
            sector[_DURABLE_AT:] = _packed(checkpoint.durable_end, checkpoint.log_timestamp)
        self._disk.write(descriptor, 0, bytes(sector))
        self._disk.sync(descriptor)
        self._value = checkpoint

    def note_durable(self, end: int) -> None:
        """Record, without a sync of its own, that the log is synced up to `end`.

        A full disk is ignored: the recorded end stays true. Raises OSError.
        """
        if end == self._value.durable_end:
            return
        value = msgspec.structs.replace(self._value, durable_end=end)
        try:
            self._disk.write(self._opened(), _DURABLE_AT, _packed(end, value.log_timestamp))
        except OSError as error:
            if not is_full(error):
                raise
        else:
            self._value = value

    @property
    def value(self) -> Checkpoint:
        return self._value

    def close(self) -> None:
        if self._descriptor is not None:
            self._disk.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            if self._disk.exists(self._path):
                self._descriptor = self._disk.open(self._path, writable=True)
            else:
                self._descriptor = self._created()
        return self._descriptor

    def _created(self) -> int:
        descriptor = self._disk.create(self._path, FILE_SIZE)
        try:
            self._disk.sync(descriptor)
            self._disk.sync_directory(self._path.parent)
        except OSError:
            self._disk.close(descriptor)
            raise
        return descriptor


def load_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """All zeros, which mean "unknown", if the file is missing or incomplete."""
    sector = _load_sector(disk, path)
    if len(sector) < _LAYOUT.size:
        return Checkpoint()
    checkpoint = Checkpoint(*_LAYOUT.unpack_from(sector))
    end, log_timestamp = _noted(sector)
    if log_timestamp != checkpoint.log_timestamp:
        return checkpoint
    return msgspec.structs.replace(checkpoint, durable_end=end)


def load_noted_end(disk: Disk, path: Path) -> int:
    """Our synced end, even if another broker owned the log since; 0 if unknown."""
    return _noted(_load_sector(disk, path))[0]


def _load_sector(disk: Disk, path: Path) -> bytes:
    if not disk.exists(path):
        return b""
    descriptor = disk.open(path, writable=False)
    try:
        return disk.read(descriptor, 0, _SECTOR_SIZE)
    finally:
        disk.close(descriptor)


def _noted(sector: bytes) -> tuple[int, int]:
    """Our end, and the timestamp of the log as it was then; zeros if there is none."""
    if len(sector) < _SECTOR_SIZE:
        return 0, 0
    end, log_timestamp = _DURABLE.unpack_from(sector, _DURABLE_AT)
    is_right = end > 0 and sector[_DURABLE_AT:] == _packed(end, log_timestamp)
    return (end, log_timestamp) if is_right else (0, 0)


def _packed(end: int, log_timestamp: int) -> bytes:
    packed = _DURABLE.pack(end, log_timestamp)
    return packed + _CRC.pack(crc32(packed))
