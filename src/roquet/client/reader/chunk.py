"""Chunks of records: many replies of a broker joined, and the offsets they cover."""

from typing import Final, NamedTuple, final

import msgspec

from roquet.client.queue_ref import QueueRef

# Column decoders work best on thousands of records, but Spark on a few megabytes.
CHUNK_COUNT: Final = 8192
CHUNK_SIZE: Final = 4 * 1024 * 1024


@final
class RecordChunk(msgspec.Struct, frozen=True, gc=False):
    """The records of a queue from `start_offset` to before `next_offset`.

    `data` is `count` whole records as they are stored, one after the other: what
    `roquet.protocol.record_columns.decode_records` takes. With a filter there are fewer of them
    than offsets. A record of 5.x that holds many messages counts as one and is never cut, so
    some of its messages may be outside the range, or have other tags.
    """

    queue: QueueRef
    start_offset: int
    next_offset: int
    count: int
    data: bytes


class PulledPiece(NamedTuple):
    """The part of a chunk that one pull returned."""

    next_offset: int
    record_count: int
    data: bytes


@final
class ChunkBuilder:
    """Joins the pieces of a queue, in their order."""

    def __init__(self, queue: QueueRef, start_offset: int) -> None:
        self._queue = queue
        self._start_offset = start_offset
        self._next_offset = start_offset
        self._count = 0
        self._size = 0
        self._pieces: list[bytes] = []

    @property
    def is_full(self) -> bool:
        return self._count >= CHUNK_COUNT or self._size >= CHUNK_SIZE

    @property
    def has_records(self) -> bool:
        return self._count > 0

    def add(self, piece: PulledPiece) -> None:
        self._next_offset = piece.next_offset
        if piece.record_count:
            self._count += piece.record_count
            self._size += len(piece.data)
            self._pieces.append(piece.data)

    def chunk(self) -> RecordChunk:
        """All records since the last chunk; the next one starts where it ends."""
        made = RecordChunk(
            self._queue,
            self._start_offset,
            self._next_offset,
            self._count,
            b"".join(self._pieces),
        )
        self._start_offset = self._next_offset
        self._count = self._size = 0
        self._pieces = []
        return made
