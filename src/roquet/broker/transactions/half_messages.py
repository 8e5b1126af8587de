"""The stored forms of the messages of a transaction, as Apache 4.9 writes them.

    half       RMQ_SYS_TRANS_HALF_TOPIC, queue 0: what was sent, and its real topic and queue
    op         RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag d: the half message at the offset that
               the body names is over; 5.x collects several, each with a comma after it
    committed  in its real queue: all that the half message holds, and that one's physical offset
    renewed    the half message appended again, because its producer is asked about it again
    kept       the same, because it is too early to ask
    given up   TRANS_CHECK_MAX_TIME_TOPIC, queue 0: the half message, asked about too often

Nothing here stores anything; `phases.py` and `check_back.py` do.
"""

from typing import Final

from msgspec.structs import replace

from roquet.broker.messages.appending import NewMessage
from roquet.broker.messages.long_polling import QueueName
from roquet.broker.tables.offsets import HALF_QUEUE_ID
from roquet.broker.transactions.pending_halves import OVER_TAG
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property, StoredMessage, SysFlag
from roquet.protocol.messages.properties import property_of
from roquet.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TOO_MANY_CHECKS_TOPIC
from roquet.store.appends import Appended

_OP_PROPERTIES: Final = f"{Property.WAIT}\x01true\x02{Property.TAGS}\x01{OVER_TAG}"

_TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK.value
_COMMIT: Final = SysFlag.TRANSACTION_COMMIT.value

# A transaction is not delayed: Apache would send a half message with a delay to the delayed ones
# and drop it there. And what the broker records in the last two starts empty, even when
# a producer forwards what it has consumed, with all properties.
_NOT_FOR_HALVES: Final[dict[str, None]] = dict.fromkeys(
    (
        Property.DELAY,
        Property.TIMER_DELAY_S,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELIVER_MS,
        Property.TRANSACTION_CHECK_TIMES,
        Property.PREPARED_QUEUE_OFFSET,
    )
)


def half_of(message: NewMessage, producer_group: str) -> NewMessage:
    changes: dict[str, str | None] = {
        **_NOT_FOR_HALVES,
        Property.REAL_TOPIC: message.topic,
        Property.REAL_QUEUE_ID: str(message.queue_id),
        # Without a group no producer could be asked.
        Property.PRODUCER_GROUP: property_of(message.properties, Property.PRODUCER_GROUP)
        or producer_group,
    }
    half = replace(
        message,
        topic=HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        sys_flag=message.sys_flag & ~_TRANSACTION_MASK,
    )
    return half.with_properties(**changes)


def committed(half: StoredMessage) -> NewMessage:
    """Raises Refused if its real topic and queue are unknown."""
    queue = real_queue(half)
    return NewMessage(
        topic=queue.topic,
        queue_id=queue.queue_id,
        body=half.body,
        properties=half.property_text,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        store_host=half.store_host,
        flag=half.flag,
        sys_flag=half.sys_flag & ~_TRANSACTION_MASK | _COMMIT,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.physical_offset,
    )


def op_message(half_offset: int, store_host: bytes, now_ms: int) -> NewMessage:
    return NewMessage(
        topic=OP_HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        body=b"%d" % half_offset,
        properties=_OP_PROPERTIES,
        born_timestamp=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def renewed(half: StoredMessage, check_count: int) -> NewMessage:
    return _once_more(half).with_properties(**{Property.TRANSACTION_CHECK_TIMES: str(check_count)})


def kept(half: StoredMessage) -> NewMessage:
    """Its producer knows only the first of them, so that one's offset is recorded.

    Apache counts this as asked, and so would give up on a long wish not to be asked. We do not.
    """
    first = half.properties.get(Property.PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return _once_more(half).with_properties(**{Property.PREPARED_QUEUE_OFFSET: first})


def given_up(half: StoredMessage) -> NewMessage:
    return replace(NewMessage.copy_of(half), topic=TOO_MANY_CHECKS_TOPIC, queue_id=0)


def resumed(message: StoredMessage) -> NewMessage:
    """A half message that was given up, to be asked about again as if it never had been."""
    again = replace(NewMessage.copy_of(message), topic=HALF_TOPIC, queue_id=HALF_QUEUE_ID)
    return again.with_properties(**{Property.TRANSACTION_CHECK_TIMES: "0"})


def question_record(half: StoredMessage, again: NewMessage, appended: Appended) -> bytes:
    """The record that a producer is shown: at home in its real queue, but with the offsets of
    the renewed half message, for these are what it has to answer with.
    """
    queue = real_queue(half)
    draft = RecordDraft(
        queue_id=queue.queue_id,
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        store_host=half.store_host,
        body=half.body,
        topic=queue.topic.encode(),
        properties=again.properties.encode(),
        reconsume_times=half.reconsume_times,
    )
    record = bytearray(draft.size)
    draft.write(
        record,
        0,
        appended.queue_offset,
        appended.physical_offset,
        half.store_timestamp,
    )
    return bytes(record)


def real_queue(half: StoredMessage) -> QueueName:
    """Raises Refused."""
    topic = half.properties.get(Property.REAL_TOPIC)
    queue_id = half.properties.get(Property.REAL_QUEUE_ID, "")
    if topic is None or not (queue_id.isascii() and queue_id.isdigit() and len(queue_id) < 10):
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the message at {half.physical_offset} has no valid REAL_TOPIC and REAL_QID",
        )
    return QueueName(topic, int(queue_id))


def _once_more(half: StoredMessage) -> NewMessage:
    # Apache loses the user's flag here, and the stores have to be equal.
    return replace(NewMessage.copy_of(half), flag=0, reconsume_times=0)
