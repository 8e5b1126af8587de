"""Transactions: a half message is stored, and later committed or rolled back.

Each end is written in an order that a crash may cut anywhere: the committed message, then the op
message that ends it. With only the first in the log the transaction is over all the same.

A half message may have duplicates: the check appends it again before it asks about it, and its
producer may still answer about the older one. A second answer about the same transaction is
ignored. That it is the second is known from a bit, as long as the check has not passed it and the
broker was not restarted; then from the key index, by the message's unique key. Without an index,
or without a unique key, it cannot be known: the answer about a half message that the check has
passed is ignored, and that about one from before the start is believed, as it is by Apache.
"""

from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.messages.appending import (
    NewMessage,
    append_draft,
    append_message,
    refusal,
)
from roquet.broker.transactions.half_messages import committed, half_of, op_message, real_queue
from roquet.clock import Clock
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.messages import SendMessageHeader
from roquet.protocol.messages.message import Property, StoredMessage, SysFlag
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX, property_of
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.redelivery import common_commit
from roquet.protocol.names import HALF_TOPIC, TOO_MANY_CHECKS_TOPIC
from roquet.store.appends import Appended
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore

_TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK.value
_COMMIT: Final = SysFlag.TRANSACTION_COMMIT.value
# What the check adds to the properties of a half message has to fit, too.
_CHECK_PROPERTIES_SIZE_MAX: Final = 128
_COPY_COUNT_MAX: Final = 64
_FOREVER_MS: Final = 2**63 - 1


def starts_transaction(header: SendMessageHeader) -> bool:
    """Whether this send is to be committed or rolled back later."""
    properties = header.properties or ""
    mark = property_of(properties, Property.TRANSACTION_PREPARED)
    if mark is None or mark.lower() != "true":
        return False
    # Clients before 4.6.1 send a message that is to be tried again with all that it had, and so
    # with the mark of the transaction that brought it.
    is_delayed = property_of(properties, Property.DELAY) not in (None, "0")
    return not (is_delayed and header.reconsume_times)


def prepare(broker: Broker, message: NewMessage, producer_group: str) -> Appended:
    """Stores what is sent as a half message. Raises Refused; then nothing was stored."""
    if broker.config.refuse_transactions:
        raise Refused(ResponseCode.NO_PERMISSION, "this broker does not accept transactions")
    half = half_of(message, producer_group)
    size = len(half.properties.encode())
    if size > PROPERTIES_SIZE_MAX - _CHECK_PROPERTIES_SIZE_MAX:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, f"{size} bytes of properties leave no room for the check"
        )
    return append_half(broker, half)


def append_half(broker: Broker, half: NewMessage) -> Appended:
    """Raises Refused; then nothing was stored."""
    appended = append_message(broker.messages, half)
    broker.waiting.pending_halves.half_appended(appended.queue_offset)
    return appended


def open_half(broker: Broker, half: StoredMessage) -> StoredMessage | None:
    """The duplicate of a half message that its transaction ends with; None if it is over already.

    Raises Refused when the store cannot look.
    """
    pending = broker.waiting.pending_halves
    if half.queue_offset >= max(pending.progress, pending.doubtful_end):
        return None if half.queue_offset in pending.ended else half
    duplicates = _duplicates(broker.store, half)
    if any(each.queue_offset in pending.ended for each in duplicates):
        return None
    if _is_committed(broker.store, half, duplicates):
        return None
    newest = max(duplicates, key=lambda each: each.queue_offset)
    # What was given up is not delivered, so the late answer of its producer still counts.
    is_open = newest.queue_offset >= pending.progress or is_given_up(broker.store, half)
    return newest if is_open else None


def is_given_up(store: MessageStore, half: StoredMessage) -> bool:
    """As far as can be known. Raises Refused."""
    return any(
        found.born_timestamp == half.born_timestamp
        for found in _found_by_key(store, TOO_MANY_CHECKS_TOPIC, half)
    )


def commit(broker: Broker, half: StoredMessage) -> int:
    """Delivers what was prepared; the end of that in the log. Raises Refused."""
    appended = append_message(broker.messages, committed(half))
    age_ms = _age_ms(broker.clock, half.born_timestamp)
    broker.statistics.ended_transactions.count_commit(_topic_of(half), age_ms)
    _note_committed(broker, half.queue_offset)
    return appended.physical_offset + appended.size


def commit_common(
    broker: Broker, record: bytes, producer_group: str, queue_offset: int
) -> int | None:
    """The same for the record of a half message that is surely open, and about which nothing is
    uncommon; None for any other, to which nothing has happened. Raises Refused."""
    pending = broker.waiting.pending_halves
    is_sure = queue_offset >= max(pending.progress, pending.doubtful_end)
    if not is_sure or queue_offset in pending.ended:
        return None
    draft = common_commit(
        record, producer_group.encode(), queue_offset, broker.messages.has_checksums
    )
    if draft is None:
        return None
    topic = draft.topic.decode()
    appended = append_draft(broker.messages, topic, draft)
    age_ms = _age_ms(broker.clock, draft.born_timestamp)
    broker.statistics.ended_transactions.count_commit(topic, age_ms)
    _note_committed(broker, queue_offset)
    return appended.physical_offset + appended.size


def _note_committed(broker: Broker, half_offset: int) -> None:
    pending = broker.waiting.pending_halves
    pending.ended.add(half_offset)
    try:
        _record_end(broker, half_offset)
    except Refused:
        # It is delivered. The op message can wait until there is room for it.
        pending.unrecorded.append(half_offset)


def roll_back(broker: Broker, half: StoredMessage) -> int:
    """Forgets what was prepared; the log's end after the op message. Raises Refused."""
    appended = _record_end(broker, half.queue_offset)
    broker.waiting.pending_halves.ended.add(half.queue_offset)
    broker.statistics.ended_transactions.count_rollback(
        _topic_of(half), _age_ms(broker.clock, half.born_timestamp)
    )
    return appended.physical_offset + appended.size


def record_missing_ends(broker: Broker) -> None:
    """Raises Refused if there is still no room."""
    unrecorded = broker.waiting.pending_halves.unrecorded
    while unrecorded:
        _record_end(broker, unrecorded[-1])
        unrecorded.pop()


def _topic_of(half: StoredMessage) -> str:
    return half.properties.get(Property.REAL_TOPIC, "")


def _age_ms(clock: Clock, born_timestamp: int) -> int:
    return max(0, clock.now_ms() - born_timestamp)


def _record_end(broker: Broker, half_offset: int) -> Appended:
    message = op_message(half_offset, broker.messages.store_host, broker.clock.now_ms())
    appended = append_message(broker.messages, message)
    broker.waiting.pending_halves.op_appended(appended.queue_offset)
    return appended


def _duplicates(store: MessageStore, half: StoredMessage) -> list[StoredMessage]:
    # A producer may send one message twice, which makes two transactions of one key.
    same = [
        each
        for each in _found_by_key(store, HALF_TOPIC, half)
        if each.born_timestamp == half.born_timestamp
    ]
    return [half, *same]


def _is_committed(
    store: MessageStore, half: StoredMessage, duplicates: list[StoredMessage]
) -> bool:
    places = {each.physical_offset for each in duplicates}
    return any(
        found.sys_flag & _TRANSACTION_MASK == _COMMIT
        and found.prepared_transaction_offset in places
        for found in _found_by_key(store, real_queue(half).topic, half)
    )


def _found_by_key(store: MessageStore, topic: str, half: StoredMessage) -> list[StoredMessage]:
    """Messages of a topic that have the unique key of the half message. Raises Refused."""
    key = half.properties.get(Property.UNIQUE_KEY)
    if key is None:
        return []
    try:
        found = store.query(topic, key, _COPY_COUNT_MAX, 0, _FOREVER_MS)
    except StoreUnavailable as error:
        raise refusal(error) from None
    return [read_record(record) for record in found.records]
