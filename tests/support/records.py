"""Records in bytes: the one of the documentation, any draft, and a message written again."""

from typing import Any

from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record_batches import RecordBatch

BORN_TIMESTAMP = 1_700_000_000_000
STORE_TIMESTAMP = BORN_TIMESTAMP + 123

PLAIN_DRAFT = RecordDraft(
    queue_id=2,
    flag=0,
    sys_flag=0,
    born_timestamp=BORN_TIMESTAMP,
    born_host=pack_host("127.0.0.1", 50000),
    store_host=pack_host("127.0.0.1", 10911),
    body=b"hello",
    topic=b"T1",
    properties=b"TAGS\x01TagA\x02KEYS\x01k1",
)


def changed(draft: RecordDraft, **changes: Any) -> RecordDraft:
    """The same draft with other values of some members."""
    members = (
        "queue_id",
        "flag",
        "sys_flag",
        "born_timestamp",
        "born_host",
        "store_host",
        "body",
        "topic",
        "properties",
        "reconsume_times",
        "prepared_transaction_offset",
        "magic",
        "has_checksum",
    )
    return RecordDraft(**({name: getattr(draft, name) for name in members} | changes))


def batch_records(batch: RecordBatch, queue_offset: int, physical_offset: int) -> bytes:
    buffer = bytearray(batch.size)
    batch.write(buffer, 0, queue_offset, physical_offset, STORE_TIMESTAMP)
    return bytes(buffer)


def record_of(draft: RecordDraft, queue_offset: int = 7, physical_offset: int = 4096) -> bytes:
    buffer = bytearray(draft.size)
    draft.write(buffer, 0, queue_offset, physical_offset, STORE_TIMESTAMP)
    return bytes(buffer)


def draft_of(message: StoredMessage, *, has_checksum: bool) -> RecordDraft:
    """What its record was made of, but for its place."""
    return RecordDraft(
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        body=message.body,
        topic=message.topic.encode(),
        properties=message.raw_properties,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        magic=message.magic,
        has_checksum=has_checksum,
    )


def written_again(message: StoredMessage, *, has_checksum: bool = False) -> bytes:
    draft = draft_of(message, has_checksum=has_checksum)
    buffer = bytearray(draft.size)
    draft.write(buffer, 0, message.queue_offset, message.physical_offset, message.store_timestamp)
    return bytes(buffer)
