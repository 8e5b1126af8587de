"""Delivers delayed messages to their topics when they are due.

One task delivers slice by slice. While clients send, a slice takes a fifth of the time since the
one before it, so they keep more than four fifths. Otherwise slice follows slice.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.delays import Delays
from roquet.broker.delays.due import BATCH_COUNT_MAX, SliceBudget, slice_length_s
from roquet.broker.messages.appending import Messages, append_batch
from roquet.broker.replication.replication import Replication
from roquet.broker.tables.durable_state import ProgressTables
from roquet.clock import Clock
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import CHECKSUM_SIZE, read_record
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.protocol.messages.redelivery import common_redelivery
from roquet.protocol.names import CLOSED_TOPICS
from roquet.store.dispatch import value_of
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_REST_S: Final = 0.005
_RETRY_PAUSE_S: Final = 1.0
_COUNT_STEPS_MAX: Final = 100
_REAL_TOPIC: Final = b"\x02REAL_TOPIC\x01"
_REAL_QUEUE_ID: Final = b"\x02REAL_QID\x01"
_CHECKSUM: Final = b"\x02__CRC32#\x01"
_CLOSED_TOPICS: Final = frozenset(topic.encode() for topic in CLOSED_TOPICS)


async def deliver_delayed(messages: Messages, delays: Delays, clock: Clock) -> None:
    """Never returns."""
    store = messages.store
    refusals = ThrottledLog(log, clock.monotonic_s)
    ended_s = clock.monotonic_s()
    log_end = store.log_end
    batch_max = BATCH_COUNT_MAX
    while True:
        await delays.until_due()
        # Nothing else was written since the last slice.
        is_alone = store.log_end == log_end
        length_s = slice_length_s(clock.monotonic_s() - ended_s, is_alone=is_alone)
        try:
            budget = SliceBudget(clock, length_s=length_s, batch_max=batch_max)
            deliver_slice(messages, delays, budget)
            batch_max = BATCH_COUNT_MAX
            refusals.clear("")
        except Refused as refused:
            refusals.warning("", f"delayed messages are not delivered yet, retrying: {refused}")
            # What was stored of the batch will be stored again. That must not go on and on.
            batch_max = 1
            await asyncio.sleep(_RETRY_PAUSE_S)
        ended_s = clock.monotonic_s()
        log_end = store.log_end
        await asyncio.sleep(0 if is_alone else _REST_S)


async def count_waiting(levels: DelayLevels) -> None:
    """For operators: counts messages from before the start, some thousands in each call."""
    for _ in range(_COUNT_STEPS_MAX):
        if not levels.count_some():
            return
        await asyncio.sleep(_REST_S)


def deliver_slice(messages: Messages, delays: Delays, budget: SliceBudget) -> None:
    """Delivers what is due, within the budget. Raises Refused; the rest is due again then."""
    for records in delays.due(budget):
        redeliver(messages, records)


def save_progress(progress: ProgressTables, replication: Replication) -> None:
    """To be called periodically: what is safe by now may be recorded as delivered."""
    progress.confirm(replication.safe_end)


def redeliver(messages: Messages, records: Sequence[bytes]) -> None:
    """Stores delayed messages in their topics.

    Raises Refused when nothing can be stored now; some of them may be stored then. A message that
    can never be stored is skipped and logged.
    """
    by_place: dict[tuple[bytes, int], list[RecordDraft]] = {}
    has_checksum = messages.has_checksums
    for record in records:
        try:
            draft = redelivery(record, has_checksum=has_checksum)
        except ProtocolError as error:
            log.error("delayed message is not delivered: %s", error)  # noqa: TRY400  No traceback is needed.
        else:
            by_place.setdefault((draft.topic, draft.queue_id), []).append(draft)
    for (topic, _), drafts in by_place.items():
        _append_all(messages, topic.decode(), drafts)


def _append_all(messages: Messages, topic: str, drafts: Sequence[RecordDraft]) -> None:
    """Together they may be too large, or one of them may be bad: then each goes by itself."""
    try:
        append_batch(messages, topic, DraftBatch(drafts))
    except (ProtocolError, Refused) as error:
        if isinstance(error, Refused) and error.code is not ResponseCode.MESSAGE_ILLEGAL:
            raise
        if len(drafts) == 1:
            log.error("delayed message is not delivered: %s", error)  # noqa: TRY400  No traceback is needed.
            return
        for draft in drafts:
            _append_all(messages, topic, [draft])


def redelivery(record: bytes, *, has_checksum: bool) -> RecordDraft:
    """The message of a record as it was, but for its place. Raises BadMessage."""
    common = common_redelivery(record, has_checksum)
    if common is not None and common.topic not in _CLOSED_TOPICS:
        return common
    return any_redelivery(record, has_checksum=has_checksum)


def any_redelivery(record: bytes, *, has_checksum: bool) -> RecordDraft:
    """The same for whatever kind of record there is. Raises BadMessage."""
    message = read_record(record)
    properties = _without_checksum(message.raw_properties)
    topic = value_of(properties, _REAL_TOPIC)
    queue_id = value_of(properties, _REAL_QUEUE_ID)
    if not topic or topic in _CLOSED_TOPICS or not topic.isascii() or not queue_id.isdigit():
        raise BadMessage(
            f"the message at {message.physical_offset} has no valid REAL_TOPIC and REAL_QID"
        )
    return RecordDraft(
        queue_id=int(queue_id),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        body=message.body,
        topic=topic,
        properties=properties,
        reconsume_times=message.reconsume_times,
        # The properties may already have the largest size allowed.
        has_checksum=has_checksum and len(properties) + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX,
    )


def _without_checksum(properties: bytes) -> bytes:
    """It is always last, so this finds it quicker than a draft would."""
    if properties[-CHECKSUM_SIZE - 1 :].startswith(_CHECKSUM):
        return properties[:-CHECKSUM_SIZE]
    return properties
