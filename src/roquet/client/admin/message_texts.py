"""Messages for people and for programs: bodies as texts, all members as one object."""

import base64
from collections.abc import Mapping
from datetime import datetime

from roquet.client.received import ReceivedMessage
from roquet.protocol.errors import BadMessage

MessageMember = int | str | datetime | Mapping[str, str] | None


def message_members(message: ReceivedMessage) -> dict[str, MessageMember]:
    """All members, for programs. A body that is not UTF-8 is included as base64 only."""
    body = stored_body(message)
    return {
        **message_place(message),
        "size": len(body),
        "body": _text(body),
        "body_base64": base64.b64encode(body).decode(),
        "properties": dict(message.properties),
    }


def message_place(message: ReceivedMessage) -> dict[str, MessageMember]:
    """Where it is, and what it is found by."""
    return {
        "stored": message.stored,
        # Of a retry or a dead letter the one that has this queue and offset.
        "topic": message.stored_topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": " ".join(message.keys) or None,
    }


def body_text(message: ReceivedMessage, length_max: int | None = None) -> str:
    body = stored_body(message)
    text = _text(body)
    if text is None:
        return f"<{len(body)} bytes>"
    # Control characters belong to no terminal. What is cut off is not looked at.
    is_cut = length_max is not None and len(text) > length_max
    text = text[: length_max - 1] if is_cut and length_max is not None else text
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return f"{text}…" if is_cut else text


def stored_body(message: ReceivedMessage) -> bytes:
    try:
        return message.body
    except BadMessage:
        return message.record.body  # As stored: it cannot be decompressed.


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
