"""Pieces: rows that are one request, and the ids of their messages.

    id of a message   80 bits of the piece | 32 bits: 0 | 16 bits: number in the piece

It has the form of other ids, whose third part is the time of the month: tools look for messages
from there on, and so find these from the month's beginning.

A piece is known by its write, batch, partition, number and content. All of that is the same when
a task or batch is repeated with the same rows and options, so a piece that a broker has already
can be recognised by the id of its first message: brokers store a request whole or not at all. When
something else is in it, it is another piece: rows may then be there twice, but none is missing.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadRow
from roquet.pipeline.options.writing import REQUEST_SIZE_MAX
from roquet.pipeline.sink.rows import Rows, Share, encodable, row_error
from roquet.protocol.messages.message import Property
from roquet.protocol.record_columns import (
    BadProperty,
    EncodedBatch,
    RowTooLarge,
    encode_batches,
)

_PIECE_SIZE: Final = 10  # bytes of an id
_NO_TIME: Final = "00000000"
_NUMBER_SIZE: Final = 4
_NUMBERS: Final = np.frombuffer(
    "".join(f"{number:04X}" for number in range(1 << 16)).encode(), np.uint8
).reshape(-1, _NUMBER_SIZE)
# As long as an id, which is written over it.
_PLACEHOLDER: Final = "0" * 32
_ID_SIZE: Final = len(_PLACEHOLDER)
_COLUMNS: Final = {Property.TAGS: "tags", Property.KEYS: "keys"}


class SendPiece(NamedTuple):
    """One request. Without a queue any will do."""

    topic: str
    queue: QueueRef | None
    body: bytes
    message_count: int
    first_id: str


class Cuts(NamedTuple):
    """How large pieces may be."""

    size_max: int
    count_max: int


class TaskId(NamedTuple):
    """Who writes. The same for each repetition, unless repetitions are not to be recognised."""

    write_id: str
    batch_id: int
    partition: int

    @property
    def place(self) -> str:
        return f"partition {self.partition}"

    def piece_id(self, number: int, topic: str, content: bytes) -> str:
        """The part of ids that all messages of a piece have in common."""
        digest = hashlib.blake2b(digest_size=_PIECE_SIZE)
        for part in (*self, number, topic):
            digest.update(f"{part}\n".encode())
        digest.update(content)
        return digest.hexdigest().upper() + _NO_TIME


@final
class Cutter:
    """Makes the pieces of one task, one Arrow batch after the other."""

    def __init__(self, task: TaskId, cuts: Cuts, extra: Mapping[str, str]) -> None:
        """`extra` are properties that all messages get."""
        self._task = task
        self._cuts = cuts
        self._extra = {name: value for name, value in extra.items() if value}
        # Bytes that follow an id in a message; two more than letters for each property.
        self._behind_id = sum(
            2 + len(f"{name}{value}".encode()) for name, value in self._extra.items()
        )
        self._first_row = 0
        self.piece_count = 0

    def pieces(
        self, rows: pa.RecordBatch, shares: Sequence[Share], first_row: int
    ) -> Iterator[SendPiece]:
        """`first_row` is the number of the first of `rows` in the partition. Raises BadRow."""
        self._first_row = first_row
        for share in shares:
            mine = encodable(rows, share)
            for batch in self._encoded(mine, share):
                yield self._piece(share, batch)

    def check(self, rows: pa.RecordBatch, chosen: Rows, first_row: int) -> None:
        """Raises BadRow for one of the chosen rows that could not be in a piece."""
        self._first_row = first_row
        share = Share("", None, chosen)
        for _ in self._encoded(encodable(rows, share), share):
            pass

    def _piece(self, share: Share, batch: EncodedBatch) -> SendPiece:
        stem = self._task.piece_id(self.piece_count, share.topic, batch.body)
        self.piece_count += 1
        ids = np.empty((batch.row_count, _ID_SIZE), np.uint8)
        ids[:, :-_NUMBER_SIZE] = np.frombuffer(stem.encode(), np.uint8)
        ids[:, -_NUMBER_SIZE:] = _NUMBERS[: batch.row_count]
        body = _with_ids(batch, ids, self._behind_id)
        return SendPiece(share.topic, share.queue, body, batch.row_count, ids[0].tobytes().decode())

    def _encoded(self, rows: pa.RecordBatch, share: Share) -> Iterator[EncodedBatch]:
        """Cut to size; a row that is too large for that is alone."""
        begin = 0
        while begin < rows.num_rows:
            end, batches = self._encoded_from(rows, share, begin)
            for batch in batches:
                yield batch._replace(first_row=begin + batch.first_row)
            begin = end

    def _encoded_from(
        self, rows: pa.RecordBatch, share: Share, begin: int
    ) -> tuple[int, Sequence[EncodedBatch]]:
        """All rows from `begin` on, or those up to one that is too large, or that one."""
        end, size_max = rows.num_rows, self._cuts.size_max
        while True:
            try:
                return end, encode_batches(
                    rows.slice(begin, end - begin),
                    size_max=size_max,
                    count_max=self._cuts.count_max,
                    # The id comes first, so that what is behind it has the same size in all rows.
                    extra={Property.UNIQUE_KEY: _PLACEHOLDER, **self._extra},
                )
            except RowTooLarge as error:
                if error.limit != size_max or size_max == REQUEST_SIZE_MAX:
                    column = "body" if error.limit == size_max else "properties"
                    reason = f"{error.size} bytes are over the limit of {error.limit}"
                    raise self._bad(share, begin + error.row, column, reason) from None
                end = begin + max(1, error.row)
                if error.row == 0:
                    size_max = REQUEST_SIZE_MAX
            except BadProperty as error:
                column = _COLUMNS.get(error.name, "properties")
                raise self._bad(share, begin + error.row, column, error.reason) from None

    def _bad(self, share: Share, row: int, column: str, reason: str) -> BadRow:
        """`row` is the number in the share."""
        number = self._first_row + int(share.rows[row])
        return row_error(self._task.place, number, column, reason)


def _with_ids(batch: EncodedBatch, ids: npt.NDArray[np.uint8], behind_id: int) -> bytes:
    """The body, with an id in the place of each placeholder."""
    body = np.frombuffer(batch.body, np.uint8).copy()
    opaque = np.dtype((np.void, _ID_SIZE))
    # Overlapping items, one for each byte that an id could begin at.
    places = np.ndarray((body.size - _ID_SIZE + 1,), opaque, body, strides=(1,))
    places[batch.ends - behind_id - _ID_SIZE] = ids.view(opaque)[:, 0]
    return body.tobytes()
