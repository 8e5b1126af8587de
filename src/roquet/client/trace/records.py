"""Trace records: what happened to a message, as text that Java's tools read and write.

    Pub            timestamp region group topic id tags keys host size ms kind offset-id ok
    SubBefore      timestamp region group request id retries keys
    SubAfter       request id ms ok keys outcome timestamp group
    EndTransaction timestamp region group topic id tags keys host kind transaction state asked

The name of a record and its fields are joined by 0x01, and 0x02 ends it. What is not there is
written as "null".
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from roquet.client.hooks import ConsumeOutcome, MessageKind

_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"


class _Record(msgspec.Struct, frozen=True):
    """The members of a record, in the order in which they are written."""


class PubRecord(_Record, tag="Pub", frozen=True):
    """A message was sent."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_size: int
    duration_ms: int
    kind: MessageKind
    offset_id: str | None
    is_success: bool


class SubBeforeRecord(_Record, tag="SubBefore", frozen=True):
    """A listener is called; `request_id` is the same before and after."""

    timestamp: int
    region: str | None
    group: str
    request_id: str
    message_id: str
    retry_count: int
    keys: str | None


class SubAfterRecord(_Record, tag="SubAfter", frozen=True):
    """A listener returned. Old clients do not say how, when and of which group."""

    request_id: str
    message_id: str
    duration_ms: int
    is_success: bool
    keys: str | None
    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS
    timestamp: int = 0
    group: str | None = None


class EndTransactionRecord(_Record, tag="EndTransaction", frozen=True):
    """A broker was told how a transaction ended."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    kind: MessageKind
    transaction_id: str | None
    state: str  # as Java calls it
    is_answer: bool


TraceRecord = PubRecord | SubBeforeRecord | SubAfterRecord | EndTransactionRecord

_KINDS: Final[dict[str, type[TraceRecord]]] = {
    "Pub": PubRecord,
    "SubBefore": SubBeforeRecord,
    "SubAfter": SubAfterRecord,
    "EndTransaction": EndTransactionRecord,
}
_PUB_SIZE_OLD: Final = 12  # without the offset id


def trace_text(record: TraceRecord) -> str:
    """The record as it is written, its end included."""
    name = record.__struct_config__.tag
    values = map(_text, msgspec.structs.astuple(record))
    return _FIELD_END.join((str(name), *values)) + _RECORD_END


def parse_traces(text: str) -> Iterator[TraceRecord]:
    """The records of a trace message; what nobody can read is passed over."""
    for line in text.split(_RECORD_END):
        name, *fields = line.split(_FIELD_END)
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if kind is PubRecord and len(fields) == _PUB_SIZE_OLD:
            fields.insert(-1, _NULL)
        try:
            yield msgspec.convert(_members(kind, fields), kind, strict=False)
        except msgspec.ValidationError:
            continue


def _members(kind: type[TraceRecord], fields: Iterable[str]) -> dict[str, str | None]:
    # Newer clients write more fields behind the known ones.
    return {
        field.encode_name: None if value == _NULL else value
        for field, value in zip(msgspec.structs.fields(kind), fields, strict=False)
    }


def _text(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))  # of an enum, too
    # No field may end where it should not.
    return str(value).replace(_FIELD_END, " ").replace(_RECORD_END, " ")
