"""Popped messages whose time is over come again, through the retry topic of their group.

At the time of a check point each of its messages that is still out is appended to the retry topic,
and then acknowledged by the broker itself. If a crash comes between the two, the next start finds
the copy by its origin. Everything that is known of the message stays: body, tags, keys, properties,
time of birth.

    ORIGIN_GROUP   the group that did not acknowledge it
    1ST_POP_TIME   when it was popped for the first time, in ms
    POP_ORIGIN     the message that was out, and since when

`reconsume_times` grows by one, unless the client postponed the message and does not want that to
count. How many redeliveries are enough is decided by clients, as with Apache's broker. Messages
that were popped in order stay where they are: pops that wait for them are woken.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.messages.appending import NewMessage, append_message, one_more
from roquet.broker.pop.in_flight import CheckPoint
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.ordered_popping import release_due
from roquet.broker.pop.popping import retry_topics
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage
from roquet.protocol.host import HOST_SIZE_V6
from roquet.protocol.messages.message import Property, StoredMessage, SysFlag
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import RETRY_PREFIX
from roquet.store.reading.queue_reading import QueueReadLimits
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

RETRY_QUEUE_COUNT: Final = 1
RETRY_QUEUE_ID: Final = 0

_HOSTS_V6: Final = SysFlag.BORN_HOST_V6.value | SysFlag.STORE_HOST_V6.value
# Records of Apache's that wait among timers are found this often; so are clocks that were set.
_SLEEP_MS_MAX: Final = 1_000
_RETRY_PAUSE_S: Final = 1.0
_UNREADABLE_PAUSE_MS: Final = 1_000
# Check points that are dealt with before others have their turn.
_SLICE_COUNT_MAX: Final = 64
_REST_S: Final = 0.001


async def redeliver_due(broker: Broker) -> None:
    """Never returns."""
    journal = broker.waiting.pops
    refusals = ThrottledLog(log, broker.clock.monotonic_s)
    while True:
        await _until_due(journal)
        try:
            journal.catch_up()
            redeliver_slice(broker)
            journal.rewrite_stragglers()
            refusals.clear("")
        except Refused as refused:
            text = (
                f"popped messages whose time is over are not redelivered yet, retrying: {refused}"
            )
            refusals.warning("", text)
            await asyncio.sleep(_RETRY_PAUSE_S)
        await asyncio.sleep(_REST_S)


async def _until_due(journal: PopJournal) -> None:
    journal.is_woken.clear()
    now_ms = journal.steady_ms
    until_ms = now_ms + _SLEEP_MS_MAX
    next_ms = journal.next_due_ms
    if next_ms is not None:
        until_ms = min(until_ms, next_ms)
        if until_ms <= now_ms:
            return
    # Whatever is due after it need not wake anybody: most pops, which are acknowledged long before.
    journal.awaited_ms = until_ms
    try:
        async with asyncio.timeout((until_ms - now_ms) / 1000):
            await journal.is_woken.wait()
    except TimeoutError:
        pass


def redeliver_slice(broker: Broker) -> None:
    """Redelivers some of what is due. Raises Refused; the rest is due again then."""
    release_due(broker)
    journal = broker.waiting.pops
    journal.write_unwritten()
    for _ in range(_SLICE_COUNT_MAX):
        point = journal.in_flight.first_due(journal.steady_ms)
        if point is None:
            return
        redeliver(broker, point)


def redeliver(broker: Broker, point: CheckPoint) -> None:
    """Raises Refused; then some of its messages may be stored already, and are not stored again."""
    group, topic, queue_id = point.key.queue
    offsets = point.open_offsets
    store = broker.store
    if store.max_offset(topic, queue_id) <= offsets[-1] < store.end_offset(topic, queue_id):
        # After a start: replicas have not confirmed it again, so it cannot be read yet.
        journal = broker.waiting.pops
        journal.in_flight.postpone(point, journal.steady_ms + _UNREADABLE_PAUSE_MS)
        return
    # Apache's popReviveSkipIfGroupAbsent: a group that was deleted gets nothing any more.
    if group in broker.tables.groups or not broker.config.drop_pops_of_lost_groups:
        lost = _not_redelivered(broker, point, offsets)
        if lost:
            log.warning(
                "%d messages from %d on in queue %d of %s are not redelivered to group %s: they"
                " have expired, or cannot be read",
                *(len(lost), lost[0], queue_id, topic, group),
            )
    broker.waiting.pops.note_acks(point.key, offsets)


def _not_redelivered(broker: Broker, point: CheckPoint, offsets: Sequence[int]) -> list[int]:
    """Redelivers those that are not gone, and returns the others. Raises Refused."""
    lost = []
    for index, offset in enumerate(offsets):
        try:
            if not _is_redelivered(broker, point, offset):
                lost.append(offset)
        except Refused:
            if index:
                broker.waiting.pops.close_later(point.key, offsets[:index])
            raise
    return lost


def _is_redelivered(broker: Broker, point: CheckPoint, offset: int) -> bool:
    """False if the message is gone. Raises Refused."""
    group, topic, queue_id = point.key.queue
    message = _stored(broker, topic, queue_id, offset)
    if message is None:
        return False
    target = topic
    if not topic.startswith(RETRY_PREFIX):
        target = retry_topics(broker.config, group, topic)[0]
    broker.tables.topics.find_or_create(target, RETRY_QUEUE_COUNT)
    again = retried(message, point, target, broker.messages.store_host)
    try:
        append_message(broker.messages, again)
    except Refused as refused:
        if refused.code is not ResponseCode.MESSAGE_ILLEGAL:
            raise
        # Its properties are as large as they may be: it comes without ours.
        append_message(broker.messages, replace(again, properties=message.property_text))
    return True


def retried(
    message: StoredMessage, point: CheckPoint, target: str, store_host: bytes
) -> NewMessage:
    """The message as it comes again."""
    changes: dict[str, str | None] = {
        Property.ORIGIN_GROUP: point.key.queue.group,
        Property.POP_ORIGIN: point.key.origin(message.queue_offset),
    }
    if message.reconsume_times == 0 or Property.FIRST_POP_TIME not in message.properties:
        changes[Property.FIRST_POP_TIME] = str(point.key.pop_time_ms)
    # Stored properties end with a checksum of the record.
    changes[Property.CHECKSUM] = None
    retry_count = message.reconsume_times
    is_v6 = len(store_host) == HOST_SIZE_V6
    return replace(
        NewMessage.copy_of(message),
        topic=target,
        queue_id=RETRY_QUEUE_ID,
        sys_flag=message.sys_flag & ~_HOSTS_V6 | (_HOSTS_V6 if is_v6 else 0),
        born_host=store_host,
        store_host=store_host,
        reconsume_times=retry_count if point.is_suspended else one_more(retry_count),
    ).with_properties(**changes)


def _stored(broker: Broker, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
    result = broker.store.read(topic, queue_id, offset, QueueReadLimits(1, 1))
    try:
        message = read_record(result.body) if result.body else None
    except BadMessage:
        return None
    return message if message is not None and message.queue_offset == offset else None
