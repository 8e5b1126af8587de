"""Rows of one Arrow batch: checked as far as the encoder does not, and grouped into requests.

Rows with the same topic and queue can share requests; those with a delay, and all of a transaction,
are requests of their own. A bad row is named by its number in the partition, counted from 0.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roquet.client.errors import BadArgument
from roquet.client.names import check_topic
from roquet.client.producer.outgoing import RESERVED_NAMES, Delay
from roquet.client.producer.queue_choice import OrderKey, queue_of_key
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadRow
from roquet.pipeline.options.declaring import DURATION
from roquet.protocol.messages.message import KEY_SEPARATOR, Message
from roquet.protocol.messages.properties import parse_properties

_DELAYS: Final = ("delay", "delayLevel")
_ENCODED: Final = ("body", "tags", "keys", "properties", "flag")
_NAME_END: Final = "\x01"
_PROPERTY_END: Final = "\x02"

Rows = npt.NDArray[np.int64]
# The writable queues of a topic, always in the same order.
QueuesOf = Callable[[str], Sequence[QueueRef]]

_FIRST_LEVEL: Final = 1


class Share(NamedTuple):
    """Rows, as numbers in their batch, that may share requests. Without a queue, any queue."""

    topic: str
    queue: QueueRef | None
    rows: Rows


class GroupedRows(NamedTuple):
    shares: Sequence[Share]
    # Rows that are requests of their own.
    single: Rows


@cache
def _reserved() -> pa.Array:
    # Not at import: Arrow loads pandas with its first value, and the driver has no use for it.
    return pa.array(sorted(RESERVED_NAMES))


def row_error(place: str, row: int, column: str, reason: str) -> BadRow:
    """`place` is the partition, `row` the number in it."""
    return BadRow(f"row {row} of {place}, column {column!r}: {reason}")


def checked_rows(
    batch: pa.RecordBatch, default_topic: str | None, place: str, first_row: int
) -> pa.RecordBatch:
    """With a topic in each row and keys as one text. Raises BadRow."""

    def fail(row: int, column: str, reason: str) -> BadRow:
        return row_error(place, first_row + row, column, reason)

    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["topic"] = _topics(columns.get("topic"), default_topic, batch.num_rows, fail)
    _check_bodies(columns["body"], fail)
    if "keys" in columns:
        columns["keys"] = _keys(columns["keys"], fail)
    if "properties" in columns:
        _check_names(columns["properties"], fail)
    return pa.RecordBatch.from_pydict(columns)


def identities(
    rows: pa.RecordBatch, names: Sequence[str], place: str, first_row: int
) -> list[bytes]:
    """What identifies each row, by the columns with these names. Raises BadRow."""
    for name in names:
        missing = np.flatnonzero(np.asarray(rows.column(name).is_null()))
        if missing.size:
            raise row_error(
                place, first_row + int(missing[0]), name, "null, and it identifies the row"
            )
    values = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    return [msgspec.json.encode(each) for each in values]


def grouped(rows: pa.RecordBatch, queues_of: QueuesOf) -> GroupedRows:
    """Shares in the order of their first rows; rows keep their order in each."""
    is_single = np.zeros(rows.num_rows, np.bool_)
    for name in _DELAYS:
        if name in rows.schema.names:
            is_single |= np.asarray(rows.column(name).is_valid())
    together = np.flatnonzero(~is_single)
    shares: list[Share] = []
    for topic, of_topic in _by_value(rows.column("topic"), together):
        if "orderKey" in rows.schema.names:
            shares += _by_queue(rows.column("orderKey"), topic, of_topic, queues_of)
        else:
            shares.append(Share(topic, None, of_topic))
    return GroupedRows(shares, np.flatnonzero(is_single))


def encodable(rows: pa.RecordBatch, share: Share) -> pa.RecordBatch:
    """The rows of a share, with the columns that are in a message."""
    names = [name for name in _ENCODED if name in rows.schema.names]
    chosen = rows.select(names)
    if len(share.rows) == rows.num_rows:
        return chosen  # All of them, and so in their order.
    return chosen.take(pa.array(share.rows))


def _by_queue(keys: pa.Array, topic: str, of_topic: Rows, queues_of: QueuesOf) -> Iterator[Share]:
    is_free = ~np.asarray(keys.is_valid())
    free = of_topic[is_free[of_topic]]
    if len(free):
        yield Share(topic, None, free)
    bound: dict[QueueRef, list[Rows]] = {}
    for key, of_key in _by_value(keys, of_topic[~is_free[of_topic]]):
        bound.setdefault(queue_of_key(queues_of(topic), key), []).append(of_key)
    for queue, parts in bound.items():
        yield Share(topic, queue, np.sort(np.concatenate(parts)))


def _by_value(column: pa.Array, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """The rows of each value, values in the order of their first rows."""
    if not len(rows):
        return
    coded = column.take(pa.array(rows)).dictionary_encode()
    codes = np.asarray(coded.indices)
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for part in np.split(rows[order], bounds[1:]):
        yield column[int(part[0])].as_py(), part


_Fail = Callable[[int, str, str], BadRow]


def _topics(
    column: pa.Array | None, default_topic: str | None, row_count: int, fail: _Fail
) -> pa.Array:
    if column is None or pa.types.is_null(column.type):
        column = pa.nulls(row_count, pa.string())
    if column.null_count:
        if default_topic is None:
            raise fail(_first(column.is_null()), "topic", "null, and the option 'topic' is not set")
        column = pc.fill_null(column, default_topic)
    for topic in column.unique():
        try:
            check_topic(topic.as_py())
        except BadArgument as error:
            raise fail(_first(pc.equal(column, topic)), "topic", str(error)) from None
    return column


def _check_bodies(column: pa.Array, fail: _Fail) -> None:
    if column.null_count:
        raise fail(_first(column.is_null()), "body", "null; leave the row out")
    is_empty = pc.equal(pc.binary_length(column), 0)
    if pc.any(is_empty).as_py():
        raise fail(_first(is_empty), "body", "empty, and brokers refuse empty messages")


def _keys(column: pa.Array, fail: _Fail) -> pa.Array:
    if not pa.types.is_list(column.type):
        return column
    each = pc.list_flatten(column)
    has_space = pc.match_substring(each, KEY_SEPARATOR)
    if pc.any(has_space).as_py():
        at = _first(has_space)
        row = pc.list_parent_indices(column)[at].as_py()
        raise fail(row, "keys", f"the key {each[at].as_py()!r} has a space, which separates keys")
    if each.null_count:
        row = pc.list_parent_indices(column)[_first(each.is_null())].as_py()
        raise fail(row, "keys", "one of the keys is null; leave it out")
    # Spark declares elements as not null, and then Arrow joins none.
    return pc.binary_join(column.cast(pa.list_(pa.string())), KEY_SEPARATOR)


def _check_names(column: pa.Array, fail: _Fail) -> None:
    """Properties that brokers interpret are refused: some of them have columns."""
    if pa.types.is_null(column.type):
        return
    if pa.types.is_map(column.type):
        offsets = np.asarray(column.offsets)
        entries = column.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    else:
        parts = pc.split_pattern(column, _PROPERTY_END)
        rows = np.asarray(pc.list_parent_indices(parts))
        entries = pc.list_element(pc.split_pattern(pc.list_flatten(parts), _NAME_END), 0)
    is_reserved = pc.is_in(entries, _reserved())
    if pc.any(is_reserved).as_py():
        at = _first(is_reserved)
        raise fail(
            int(rows[at]),
            "properties",
            f"{entries[at].as_py()!r} is reserved: use columns such as 'tags', 'keys' and 'delay'",
        )


def _first(mask: pa.Array) -> int:
    return int(np.flatnonzero(np.asarray(pc.fill_null(mask, fill_value=False)))[0])


class SingleRow(NamedTuple):
    number: int  # in the partition
    message: Message
    order_key: OrderKey | None = None
    delay: Delay | None = None
    delay_level: int | None = None


def single_rows(
    rows: pa.RecordBatch, chosen: Rows, place: str, first_row: int
) -> Iterator[SingleRow]:
    """`rows` are checked, by the encoder too. Raises BadRow for an invalid delay."""
    for row, values in zip(chosen, rows.take(pa.array(chosen)).to_pylist(), strict=True):
        number = first_row + int(row)
        try:
            delay, level = delay_of(values), level_of(values)
        except ValueError as error:
            column = "delay" if values.get("delay") is not None else "delayLevel"
            raise row_error(place, number, column, str(error)) from None
        yield SingleRow(number, message_of(values), values.get("orderKey"), delay, level)


def level_of(values: dict[str, Any]) -> int | None:
    """Raises ValueError with what is wrong."""
    level: int | None = values.get("delayLevel")
    if level is not None and level < _FIRST_LEVEL:
        raise ValueError(f"no delay level {level}; the first one is {_FIRST_LEVEL}")
    return level


def delay_of(values: dict[str, Any]) -> Delay | None:
    """Raises ValueError with what is wrong."""
    delay: str | timedelta | datetime | None = values.get("delay")
    if not isinstance(delay, str):
        return delay
    if delay.strip().isdecimal():
        raise ValueError(f"{delay!r} has no unit; write '{delay.strip()}s' for seconds")
    try:
        return DURATION.parse(delay.strip())  # type: ignore[no-any-return]
    except ValueError:
        raise ValueError(f"{delay!r}: expected {DURATION.expected}") from None


def message_of(values: dict[str, Any]) -> Message:
    body = values["body"]
    properties = values.get("properties")
    if isinstance(properties, str):
        properties = parse_properties(properties)
    return Message(
        values["topic"],
        body.encode() if isinstance(body, str) else body,
        values.get("tags"),
        tuple((values.get("keys") or "").split(KEY_SEPARATOR)) if values.get("keys") else (),
        dict(properties or {}),
        values.get("flag") or 0,
    )
