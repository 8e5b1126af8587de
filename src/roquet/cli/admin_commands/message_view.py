"""Messages in the output of commands: one line each, or one message in full."""

from collections.abc import Mapping, Sequence
from typing import Final

from roquet.client.admin.deliveries import Deliveries
from roquet.client.admin.message_texts import (
    body_text,
    message_members,
    message_place,
    stored_body,
)
from roquet.client.received import ReceivedMessage
from roquet.reporting import Fact, Report, ReportTable

COLUMNS: Final = (
    *("stored", "topic", "broker", "queue", "offset", "message_id", "tags", "keys", "size", "body"),
)
_BODY_LENGTH_MAX: Final = 60


def messages_report(
    messages: Sequence[ReceivedMessage], deliveries: Deliveries | None = None, *, as_json: bool
) -> Report:
    """In JSON with the whole body; `deliveries` are those of the only one."""
    if as_json:
        columns = (*COLUMNS, "body_base64", "properties")
        rows = [tuple(message_members(each).values()) for each in messages]
        found = ReportTable("messages", columns, rows)
    else:
        found = ReportTable("messages", COLUMNS, list(map(_row, messages)))
    return Report({}, [found, *_delivery_tables(deliveries, as_json=as_json)])


def message_report(
    message: ReceivedMessage, deliveries: Deliveries | None = None, *, as_json: bool
) -> Report:
    more: dict[str, Fact] = {
        "born": message.born,
        "offset_id": message.offset_id,
        "retries": message.retry_count,
        "original_topic": None if message.topic == message.stored_topic else message.topic,
    }
    members: dict[str, Fact] = {**message_members(message), **more}
    if as_json:
        return Report(members, _delivery_tables(deliveries, as_json=True))
    # People read texts; programs take bytes.
    del members["body_base64"], members["properties"]
    if members["body"] is None:
        members["body"] = body_text(message)
    if members["original_topic"] is None:
        del members["original_topic"]
    properties = ReportTable("properties", ("name", "value"), [*message.properties.items()])
    return Report(members, [properties, *_delivery_tables(deliveries, as_json=False)])


def _delivery_tables(deliveries: Deliveries | None, *, as_json: bool) -> list[ReportTable]:
    """None of a topic that no group reads, but for programs."""
    if deliveries is None or not (deliveries.groups or as_json):
        return []
    rows = [
        (each.group, each.state.value, each.retry, each.until, each.note)
        for each in deliveries.groups
    ]
    return [ReportTable("groups", ("group", "state", "retry", "until", "note"), rows)]


def message_line(message: ReceivedMessage) -> str:
    """One line of `message tail --follow`, the time first."""
    stored = message.stored.astimezone().isoformat(sep=" ", timespec="milliseconds")
    place = f"{message.queue.broker_name}:{message.queue.queue_id}:{message.queue_offset}"
    marks = " ".join(filter(None, (message.tags, *message.keys)))
    return "  ".join(filter(None, (stored, place, marks, body_text(message))))


def _row(message: ReceivedMessage) -> tuple[Fact, ...]:
    place = message_place(message).values()
    return (*place, len(stored_body(message)), body_text(message, _BODY_LENGTH_MAX))


def matches(
    message: ReceivedMessage,
    *,
    key: str | None,
    properties: Mapping[str, str],
    text: str | None,
) -> bool:
    """Filters that brokers do not have."""
    return (
        (key is None or key in message.keys)
        and all(message.properties.get(name) == value for name, value in properties.items())
        and (text is None or text.encode() in stored_body(message))
    )
