"""What a client gets with a popped message, and shows when it acknowledges it.

The reply to a pop has, for all its messages, three texts:

    startOffsetInfo   0 3 17;1 0 4           kind, queue, where the check point starts
    msgOffsetInfo     0 3 17,18,20;1 0 4     kind, queue, offsets of the messages
    orderCountInfo    0 3 0;0 qo3%18 1       of ordered pops: kind, queue, how often each of them
                                             was popped before at least; the same of one message

Of these a client makes the receipt of each message, as `protocol` writes it.

Messages of a retry topic carry the receipt already, and look like messages of the topic itself: no
client has to know of retry topics.
"""

from collections.abc import Sequence

from roquet.broker.errors import BadReceipt
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.pop_receipt import Receipt, TopicKind
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import RETRY_PREFIX


def read_receipt(text: str) -> Receipt:
    """Raises BadReceipt."""
    try:
        return Receipt.read(text)
    except BadMessage:
        raise BadReceipt(text) from None


def kind_of(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return TopicKind.TOPIC
    return TopicKind.RETRY_V2 if "+" in topic else TopicKind.RETRY


def start_info(kind: str, queue_id: int, start_offset: int) -> str:
    return f"{kind} {queue_id} {start_offset}"


def offsets_info(kind: str, queue_id: int, offsets: Sequence[int]) -> str:
    return f"{kind} {queue_id} {','.join(map(str, offsets))}"


def times_info(kind: str, queue_id: int, offsets: Sequence[int], times: Sequence[int]) -> str:
    """Older clients read only the first, which is true for all messages of the queue."""
    each = [
        f"{kind} qo{queue_id}%{offset} {count}"
        for offset, count in zip(offsets, times, strict=True)
        if count
    ]
    return ";".join([f"{kind} {queue_id} {min(times)}", *each])


def with_receipt(record: bytes, topic: str, receipt: Receipt) -> bytes:
    """A record of a retry topic as the client of `topic` gets it.

    One whose properties are as large as they may be has none: the client makes it of the reply.
    """
    message = read_record(record)
    properties = b"%b\x02%b\x01%b" % (
        message.raw_properties.removesuffix(b"\x02"),
        Property.POP_CHECK_POINT.encode(),
        receipt.text.encode(),
    )
    if len(properties) > PROPERTIES_SIZE_MAX:
        properties = message.raw_properties
    draft = RecordDraft(
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        body=message.body,
        topic=topic.encode(),
        properties=properties,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )
    return draft.pack(message.queue_offset, message.physical_offset, message.store_timestamp)
