"""Appending messages to the store, and everything that follows from it.

Sends come through here, and what the broker itself writes later for delays, retries and
transactions: these take a message, change where it goes and what it carries, and store the
result. A message that a consumer could not handle is retried later each time, by delay levels;
after the last retry it is kept in the dead-letter topic of its group.
"""

import asyncio
import logging
from typing import Final, Self, final

import msgspec
from msgspec.structs import replace

from roquet.broker.messages.acks import AckQueue
from roquet.broker.messages.expiry import Expiry
from roquet.broker.messages.long_polling import LongPolls
from roquet.broker.replication.replication import Replication
from roquet.broker.tables.statistics import Statistics
from roquet.broker.tables.tables import Tables
from roquet.clock import Clock
from roquet.net.errors import Refused
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import VERSION_3_4_9, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.properties import (
    parse_properties,
    properties_text,
    with_property,
    without_property,
)
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.protocol.templates.send_reply import SendReplyTemplate
from roquet.store.appends import Appended, AppendedBatch
from roquet.store.errors import BadRecord, StoreUnavailable, TooManyFiles
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# How often the loop notes that it runs, in the time that a send may wait.
_SIGN_COUNT: Final = 8


@final
class LateSends:
    """Refuses sends that waited too long, so that their senders use another broker.

    Apache calls it fast failure, and looks at its queue of requests; we have none. Requests wait in
    sockets while the loop is busy with something else. So the loop notes periodically that it runs,
    and whatever it reads after too long a gap may have waited all that time. `wait_s_max` is the
    time that a send may wait; 0 is no limit.
    """

    __slots__ = ("_alive_s", "_clock", "refused_count", "wait_s_max")

    def __init__(self, clock: Clock, wait_s_max: float) -> None:
        self._clock = clock
        self.wait_s_max = wait_s_max
        self._alive_s = clock.monotonic_s()
        self.refused_count = 0

    @property
    def is_watched(self) -> bool:
        return self.wait_s_max > 0

    def is_late(self) -> bool:
        """Whether a send that comes now may have waited for too long."""
        # In one line: it is asked with every wake-up.
        return 0 < self.wait_s_max < self._clock.monotonic_s() - self._alive_s

    def check(self) -> None:
        """Raises Refused, in Apache's words."""
        if self.is_late():
            self.refused_count += 1
            waited_ms = round(self._silence_s() * 1000)
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in "
                f"queue: {waited_ms}ms, size of queue: 0",
            )

    def note_alive(self) -> None:
        self._alive_s = self._clock.monotonic_s()

    async def keep_noting(self) -> None:
        """For ever."""
        while True:
            self.note_alive()
            await asyncio.sleep(self.wait_s_max / _SIGN_COUNT)

    def _silence_s(self) -> float:
        return self._clock.monotonic_s() - self._alive_s


class Messages(msgspec.Struct, frozen=True):
    """What a message passes between its connection and the store, in either direction."""

    store: MessageStore
    statistics: Statistics
    acks: AckQueue
    long_polls: LongPolls
    late_sends: LateSends
    refused_writes: ThrottledLog
    expiry: Expiry
    # Where clients find this broker, packed as in records; message ids begin with it.
    store_host: bytes
    # What the broker adds to the properties of every message.
    cluster_property: bytes
    send_reply: SendReplyTemplate
    # Whether records get a checksum of the whole record.
    has_checksums: bool


def append_draft(messages: Messages, topic: str, draft: RecordDraft) -> Appended:
    """Stores one message and wakes waiting pulls. Raises Refused; then nothing was stored."""
    try:
        appended = messages.store.append(draft)
    except (TooLarge, StoreUnavailable) as error:
        raise _noted_refusal(messages, error, 1) from None
    messages.statistics.count_put(topic, 1, appended.size)
    _announce(messages, topic, draft.queue_id, appended.physical_offset + appended.size)
    return appended


def append_batch(messages: Messages, topic: str, batch: RecordBatch) -> AppendedBatch:
    """The same for messages of one queue, of which all are stored or none."""
    try:
        appended = messages.store.append_batch(batch)
    except (TooLarge, StoreUnavailable) as error:
        raise _noted_refusal(messages, error, len(batch.sizes)) from None
    messages.statistics.count_put(topic, len(batch.sizes), appended.size)
    _announce(messages, topic, batch.queue_id, appended.physical_offsets[0] + appended.size)
    return appended


def take_copied(messages: Messages, tables: Tables, replication: Replication, grown: Grown) -> None:
    """A slave has more of the log: its tables follow, and waiting pulls are woken."""
    if replication.table_log.grown(grown):
        replication.tables_wanted.set()
    end = messages.store.log_end
    for topic, queue_id in grown.queues:
        name = topic.decode()
        if tables.topics.see_queue(name, queue_id):
            log.info("topic %s has queue %d: its messages came before its settings", name, queue_id)
            replication.tables_wanted.set()
        _announce(messages, name, queue_id, end)


def refused_writes_log(clock: Clock) -> ThrottledLog:
    """For messages that the store refuses: a full disk must not fill the log."""
    return ThrottledLog(log, clock.monotonic_s)


def refusal(error: TooLarge | StoreUnavailable) -> Refused:
    if isinstance(error, TooLarge):
        return Refused(ResponseCode.MESSAGE_ILLEGAL, str(error))
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    if isinstance(error, TooManyFiles):
        # Only for this queue, and only for now.
        code = ResponseCode.SYSTEM_BUSY
    return Refused(code, str(error))


def _noted_refusal(messages: Messages, error: TooLarge | StoreUnavailable, count: int) -> Refused:
    messages.statistics.count_failed_put()
    if isinstance(error, StoreUnavailable):
        # Files are closed by themselves; a disk does not free itself.
        level = logging.WARNING if isinstance(error, TooManyFiles) else logging.ERROR
        messages.refused_writes.add(
            type(error).__name__, f"messages refused: {error}", level=level, count=count
        )
    return refusal(error)


def _announce(messages: Messages, topic: str, queue_id: int, end: int) -> None:
    if messages.acks.is_awaited:
        # What is not safe cannot be read, so there is nothing to announce yet.
        messages.long_polls.announce_when_safe(topic, queue_id, end)
    else:
        messages.long_polls.announce(topic, queue_id)


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a record holds but what the append assigns."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def copy_of(cls, message: StoredMessage) -> Self:
        """The same message once more, born when and where it was born, in the same place."""
        return cls(
            topic=message.topic,
            queue_id=message.queue_id,
            body=message.body,
            properties=message.property_text,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
        )

    def with_properties(self, **changes: str | None) -> Self:
        """None takes a property away."""
        properties = parse_properties(self.properties)
        for name, value in changes.items():
            if value is None:
                properties.pop(name, None)
            else:
                properties[name] = value
        return replace(self, properties=properties_text(properties))


def append_message(messages: Messages, message: NewMessage) -> Appended:
    """Stores it. Raises Refused; then nothing was stored."""
    try:
        draft = RecordDraft(
            queue_id=message.queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            body=message.body,
            topic=message.topic.encode(),
            properties=message.properties.encode(),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            has_checksum=messages.has_checksums,
        )
    except TooLarge as error:
        raise refusal(error) from None
    return append_draft(messages, message.topic, draft)


DLQ_QUEUE_COUNT: Final = 1
DLQ_QUEUE_ID: Final = 0

FIRST_LEVEL: Final = 3  # ten seconds, with the default levels
# Of the field of a record. Senders may start with any number.
RETRY_COUNT_MAX: Final = 2**31 - 1
_AT_ONCE: Final = 0


def retry_count_max(group: GroupConfig, command: Command, asked: int | None) -> int:
    """How often a message is redelivered; newer clients may set it themselves."""
    if asked is not None and command.version >= VERSION_3_4_9:
        return asked
    return group.retry_max_times


def next_level(retry_count: int, count_max: int, asked_level: int) -> int | None:
    """The delay level of the next try, None if there is none.

    A consumer may ask for a level; 0 leaves it to the broker, and less than 0 gives up at once.
    """
    if retry_count >= count_max or asked_level < 0:
        return None
    return asked_level or FIRST_LEVEL + retry_count


def one_more(retry_count: int) -> int:
    return min(retry_count + 1, RETRY_COUNT_MAX)


def sent_back(message: StoredMessage, topic: str, queue_id: int, level: int | None) -> NewMessage:
    """The message as it comes again, or goes to the dead letters: the same, one try older."""
    properties = message.properties
    changes = {
        Property.DELAY: str(level or _AT_ONCE),
        Property.WAIT: "false",
        # Of a redelivered message these two are those of the first delivery.
        Property.RETRY_TOPIC: properties.get(Property.RETRY_TOPIC, message.topic),
        Property.ORIGIN_MESSAGE_ID: properties.get(Property.ORIGIN_MESSAGE_ID, message.offset_id),
    }
    return replace(
        NewMessage.copy_of(message),
        topic=topic,
        queue_id=queue_id,
        properties=properties_text(properties | changes),
        reconsume_times=one_more(message.reconsume_times),
    )


def batch_properties(sent: str, cluster_name: str) -> bytes:
    """What is stored of those that came with the batch itself."""
    # A 5.x producer gives the batch an id of its own, which would hide the ids of its messages.
    kept = without_property(sent, Property.UNIQUE_KEY)
    return with_property(kept, Property.CLUSTER, cluster_name).encode()


def stored_record(store: MessageStore, physical_offset: int) -> bytes:
    """Raises Refused if no record starts there."""
    try:
        return store.record_at(physical_offset)
    except BadRecord as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
