"""Send requests: the rows of each as its body, and the ids of their messages.

    id of a message   80 bits of the request | 32 bits: 0 | 16 bits: number in the request
    by identity       80 bits of the row     | 32 bits: 0 | 16 bits of the row

It has the form of other ids, whose third part is the time of the month: tools search for messages
from there on, and so find these from the start of the month.

A row with an identity has the same id whenever its batch is repeated, in whatever task and request:
a message that a broker already has is recognised by it. Brokers store a request whole or not at
all, so whether it has one that was never answered shows in its first message.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadRow
from roquet.pipeline.options.writing import REQUEST_SIZE_MAX
from roquet.pipeline.sink.rows import Rows, Share, encodable, identities, row_error
from roquet.protocol.messages.message import Property
from roquet.protocol.record_columns import (
    BadProperty,
    EncodedBatch,
    RowTooLarge,
    encode_batches,
)

_REQUEST_ID_SIZE: Final = 10  # bytes of an id
_NO_TIME: Final = "00000000"
_NUMBER_SIZE: Final = 4
_NUMBERS: Final = np.frombuffer(
    "".join(f"{number:04X}" for number in range(1 << 16)).encode(), np.uint8
).reshape(-1, _NUMBER_SIZE)
# As long as an id, which replaces it.
_PLACEHOLDER: Final = "0" * 32
_ID_SIZE: Final = len(_PLACEHOLDER)
_COLUMNS: Final = {Property.TAGS: "tags", Property.KEYS: "keys"}


class EncodedRow(NamedTuple):
    """A message in the body of a request, which ends before `end`."""

    id: str
    end: int


class SendRequest(NamedTuple):
    """One request. Without a queue, any queue of the topic; `rows` only if they have identities."""

    topic: str
    queue: QueueRef | None
    body: bytes
    message_count: int
    first_id: str
    rows: tuple[EncodedRow, ...] = ()

    def without(self, ids: Collection[str]) -> "SendRequest | None":
        """The request without the rows of these ids; None if it has no others."""
        if not ids:
            return self
        parts: list[bytes] = []
        rows: list[EncodedRow] = []
        size = start = 0
        for row in self.rows:
            if row.id not in ids:
                parts.append(self.body[start : row.end])
                size += row.end - start
                rows.append(EncodedRow(row.id, size))
            start = row.end
        if not rows:
            return None
        return self._replace(
            body=b"".join(parts), message_count=len(rows), first_id=rows[0].id, rows=tuple(rows)
        )


class RequestLimits(NamedTuple):
    """How large requests may be."""

    size_max: int
    count_max: int


class TaskId(NamedTuple):
    """Which task writes. The same when it is repeated, unless repetitions are not recognised."""

    write_id: str
    batch_id: int
    partition: int

    @property
    def place(self) -> str:
        return f"partition {self.partition}"

    def request_id(self, number: int, topic: str, content: bytes) -> str:
        """The part of message ids that is common to a request."""
        digest = hashlib.blake2b(digest_size=_REQUEST_ID_SIZE)
        for part in (*self, number, topic):
            digest.update(f"{part}\n".encode())
        digest.update(content)
        return digest.hexdigest().upper() + _NO_TIME

    def row_id(self, topic: str, identity: bytes) -> str:
        """The id of a message: the same in every task of the batch."""
        digest = hashlib.blake2b(digest_size=_REQUEST_ID_SIZE + _NUMBER_SIZE // 2)
        for part in (self.write_id, self.batch_id, topic):
            digest.update(f"{part}\n".encode())
        digest.update(identity)
        text = digest.hexdigest().upper()
        return f"{text[:-_NUMBER_SIZE]}{_NO_TIME}{text[-_NUMBER_SIZE:]}"


@final
class RequestBuilder:
    """Makes the requests of one task, one Arrow batch after the other."""

    def __init__(
        self,
        task: TaskId,
        limits: RequestLimits,
        extra: Mapping[str, str],
        id_columns: Sequence[str] = (),
    ) -> None:
        """`extra` are properties that all messages get, `id_columns` identify rows."""
        self._task = task
        self._id_columns = id_columns
        self._identities: Sequence[bytes] = ()
        self._limits = limits
        self._extra = {name: value for name, value in extra.items() if value}
        # Bytes after the id in a message: each property has two separators.
        self._size_after_id = sum(
            2 + len(f"{name}{value}".encode()) for name, value in self._extra.items()
        )
        self._first_row = 0
        self.request_count = 0

    def requests(
        self, rows: pa.RecordBatch, shares: Sequence[Share], first_row: int
    ) -> Iterator[SendRequest]:
        """`first_row` is the number of the first of `rows` in the partition. Raises BadRow."""
        self._first_row = first_row
        if self._id_columns:
            self._identities = identities(rows, self._id_columns, self._task.place, first_row)
        for share in shares:
            mine = encodable(rows, share)
            for batch in self._encoded(mine, share):
                yield self._request(share, batch)

    def check(self, rows: pa.RecordBatch, chosen: Rows, first_row: int) -> None:
        """Raises BadRow for one of the chosen rows that could not be in a request."""
        self._first_row = first_row
        share = Share("", None, chosen)
        for _ in self._encoded(encodable(rows, share), share):
            pass

    def _request(self, share: Share, batch: EncodedBatch) -> SendRequest:
        if self._id_columns:
            return self._identified_request(share, batch)
        stem = self._task.request_id(self.request_count, share.topic, batch.body)
        self.request_count += 1
        ids = np.empty((batch.row_count, _ID_SIZE), np.uint8)
        ids[:, :-_NUMBER_SIZE] = np.frombuffer(stem.encode(), np.uint8)
        ids[:, -_NUMBER_SIZE:] = _NUMBERS[: batch.row_count]
        body = _with_ids(batch, ids, self._size_after_id)
        return SendRequest(
            share.topic, share.queue, body, batch.row_count, ids[0].tobytes().decode()
        )

    def _identified_request(self, share: Share, batch: EncodedBatch) -> SendRequest:
        self.request_count += 1
        chosen = share.rows[batch.first_row : batch.first_row + batch.row_count].tolist()
        texts = [self._task.row_id(share.topic, self._identities[row]) for row in chosen]
        if len(set(texts)) != len(texts):
            again = next(each for each in range(len(texts)) if texts[each] in texts[:each])
            raise self._bad(
                share,
                batch.first_row + again,
                ",".join(self._id_columns),
                "another row of the batch has the same value, and it identifies rows",
            )
        ids = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, _ID_SIZE)
        return SendRequest(
            share.topic,
            share.queue,
            _with_ids(batch, ids, self._size_after_id),
            batch.row_count,
            texts[0],
            tuple(map(EncodedRow, texts, batch.ends.tolist())),
        )

    def _encoded(self, rows: pa.RecordBatch, share: Share) -> Iterator[EncodedBatch]:
        """Cut to size; a row that is too large for that is a request of its own."""
        start = 0
        while start < rows.num_rows:
            end, batches = self._encoded_from(rows, share, start)
            for batch in batches:
                yield batch._replace(first_row=start + batch.first_row)
            start = end

    def _encoded_from(
        self, rows: pa.RecordBatch, share: Share, start: int
    ) -> tuple[int, Sequence[EncodedBatch]]:
        """All rows from `start` on, or those before one that is too large, or that one."""
        end, size_max = rows.num_rows, self._limits.size_max
        while True:
            try:
                return end, encode_batches(
                    rows.slice(start, end - start),
                    size_max=size_max,
                    count_max=self._limits.count_max,
                    # The id comes first, so that the size after it is the same in all rows.
                    extra={Property.UNIQUE_KEY: _PLACEHOLDER, **self._extra},
                )
            except RowTooLarge as error:
                if error.limit != size_max or size_max == REQUEST_SIZE_MAX:
                    column = "body" if error.limit == size_max else "properties"
                    reason = f"{error.size} bytes exceed the limit of {error.limit}"
                    raise self._bad(share, start + error.row, column, reason) from None
                end = start + max(1, error.row)
                if error.row == 0:
                    size_max = REQUEST_SIZE_MAX
            except BadProperty as error:
                column = _COLUMNS.get(error.name, "properties")
                raise self._bad(share, start + error.row, column, error.reason) from None

    def _bad(self, share: Share, row: int, column: str, reason: str) -> BadRow:
        """`row` is the number in the share."""
        number = self._first_row + int(share.rows[row])
        return row_error(self._task.place, number, column, reason)


def _with_ids(batch: EncodedBatch, ids: npt.NDArray[np.uint8], size_after_id: int) -> bytes:
    """The body, with an id instead of each placeholder."""
    body = np.frombuffer(batch.body, np.uint8).copy()
    opaque = np.dtype((np.void, _ID_SIZE))
    # Overlapping items, one for each byte that an id could start at.
    places = np.ndarray((body.size - _ID_SIZE + 1,), opaque, body, strides=(1,))
    places[batch.ends - size_after_id - _ID_SIZE] = ids.view(opaque)[:, 0]
    return body.tobytes()
