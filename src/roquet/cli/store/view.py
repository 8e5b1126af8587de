"""What `roquet store` shows: a store as tables, and messages as lines of JSON."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from roquet.cli.store.inspection import Inspection
from roquet.protocol.errors import ProtocolError
from roquet.protocol.host import unpack_host
from roquet.protocol.messages.message import Property, StoredMessage

_encode = msgspec.json.Encoder().encode


class MessageView(NamedTuple):
    """One message as one line; with a problem, the line is there but has no body."""

    line: bytes
    problem: str | None = None


def message_view(message: StoredMessage) -> MessageView:
    try:
        body = message.decompressed_body()
    except ProtocolError as error:
        return MessageView(_line(message, None), str(error))
    return MessageView(_line(message, base64.b64encode(body).decode()))


def _line(message: StoredMessage, body: str | None) -> bytes:
    """The names are those of Java's getters, as in the lines of tests/golden/store."""
    members = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_id,
        "keys": message.properties.get(Property.KEYS),
        "tags": message.tags,
        "properties": message.properties,
        "body": body,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "bornHost": _address(message.born_host),
        "storeHost": _address(message.store_host),
        "commitLogOffset": message.physical_offset,
        "storeSize": message.size,
        "bodyCRC": message.body_crc,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }
    return _encode(members) + b"\n"


@lru_cache(maxsize=1024)
def _address(host: bytes) -> str:
    """A store holds millions of messages from a few hosts."""
    return str(unpack_host(host))


def inspection_view(inspection: Inspection) -> RenderableType:
    stored = "first stored", "last stored"
    tables = (
        _table(("part", "files", "bytes"), inspection.parts),
        _table(("log file", "from offset", "to offset", stored[0]), inspection.log_files),
        _table(("index file", "keys", "from offset", "to offset", *stored), inspection.index_files),
        _table(("topic", "queue", "min offset", "max offset", *stored), inspection.queues),
    )
    # An empty line before each.
    return Group(_state(inspection), *(part for table in tables for part in ("", table)))


def _state(inspection: Inspection) -> Text:
    state = "closed in order" if inspection.was_closed else "in use, or left by a crash"
    checkpoint = inspection.checkpoint
    lines = [
        f"{inspection.directory}: {state}",
        f"log from offset {inspection.log_start} to {inspection.log_end}",
        f"log on disk up to {_time(checkpoint.log_timestamp)}",
        f"queues on disk up to {_time(checkpoint.queue_timestamp)}",
        f"index on disk up to {_time(checkpoint.index_timestamp)}",
    ]
    lines += [
        f"queue {queue_id} of {topic} is damaged and ends too early"
        for topic, queue_id in inspection.broken_queues
    ]
    return Text("\n".join(lines))


def _table(names: Sequence[str], rows: Sequence[msgspec.Struct]) -> Table:
    """The members of a row are its columns; what is called stored is a time."""
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(names):
        is_number = index > 0 and not name.endswith("stored")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        values = zip(names, msgspec.structs.astuple(row), strict=True)
        # A name may look like markup, and is none.
        table.add_row(*(Text(_time(v) if n.endswith("stored") else str(v)) for n, v in values))
    return table


def _time(timestamp: int | None) -> str:
    """Local time, as `--from-time` takes it."""
    if not timestamp:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds")
