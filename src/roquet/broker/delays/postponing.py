"""Messages that are not to be delivered at once: where they are stored, and in which form.

    DELAY             a level: queue level - 1 of SCHEDULE_TOPIC_XXXX
    TIMER_DELAY_SEC   seconds from now                      } queue 0 of rmq_sys_wheel_timer, with
    TIMER_DELAY_MS    milliseconds from now                 } the second before the delivery in
    TIMER_DELIVER_MS  milliseconds since 1970               } TIMER_OUT_MS

A level goes before the others, and of these the first one counts. Where the message belongs is kept
in REAL_TOPIC and REAL_QID. Forms and refusals are those of Apache 4.9.7 (levels) and 5.5.0
(timers).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.delays.delays import Delays
from roquet.broker.delays.timers import TIMER_QUEUE_ID, out_ms
from roquet.broker.messages.appending import NewMessage, append_message
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.properties import parse_properties, properties_text, property_of
from roquet.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from roquet.store.appends import Appended

TIMER_DELAY_MS_MAX: Final = 3 * 24 * 3_600_000
# Each takes eight bytes of memory while it waits.
TIMER_COUNT_MAX: Final = 10_000_000

_TIMER_QUEUE_COUNT: Final = 1
# The bit that prepared and rolled back messages have, and no others.
_IN_NO_QUEUE: Final = SysFlag.TRANSACTION_PREPARED.value
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TIMERS: Final = (Property.TIMER_DELAY_S, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)


def append_when_due(broker: Broker, message: NewMessage) -> Appended:
    """Stores a message where it belongs or, if it is not due yet, where it waits.

    Raises Refused; then nothing was stored.
    """
    waiting = postponed(broker, message)
    return (
        append_message(broker.messages, message)
        if waiting is None
        else append_waiting(broker, waiting)
    )


def postponed(broker: Broker, message: NewMessage) -> NewMessage | None:
    """The message as it waits; None if it is due at once. Raises Refused."""
    if message.sys_flag & _IN_NO_QUEUE:
        return None
    properties = parse_properties(message.properties)
    level = _level(properties)
    if level > 0:
        level = min(level, len(broker.config.store.delay_levels_ms))
        properties[Property.DELAY] = str(level)
        for name in _TIMERS:
            properties.pop(name, None)
        return _moved(message, SCHEDULE_TOPIC, level - 1, properties)
    delivery_ms = _delivery_ms(properties, broker.clock.now_ms())
    if delivery_ms is None:
        return None
    _check_timer_count(broker.waiting.delays)
    properties[Property.TIMER_OUT_MS] = str(out_ms(delivery_ms))
    return _moved(message, TIMER_TOPIC, TIMER_QUEUE_ID, properties)


def append_waiting(broker: Broker, waiting: NewMessage) -> Appended:
    """Stores what `postponed` made. Raises Refused; then nothing was stored."""
    if waiting.topic == TIMER_TOPIC:
        broker.tables.topics.find_or_create(TIMER_TOPIC, _TIMER_QUEUE_COUNT)
    broker.waiting.delays.check_clock()
    appended = append_message(broker.messages, waiting)
    stored_ms = appended.store_timestamp
    end = appended.physical_offset + appended.size
    if waiting.topic == SCHEDULE_TOPIC:
        real_topic = property_of(waiting.properties, Property.REAL_TOPIC) or ""
        note_waiting(
            broker,
            Postponed(waiting.queue_id, appended.queue_offset, real_topic, stored_ms),
            end,
        )
    else:
        _wake_when_safe(broker, end, stored_ms)  # A timer has to be indexed soon.
    return appended


class Postponed(NamedTuple):
    """A message in the queue of a delay level."""

    queue_id: int
    offset: int
    real_topic: str
    stored_ms: int


def note_waiting(broker: Broker, message: Postponed, end: int) -> None:
    """It was stored and ends there in the log: it is counted, and delivered in time."""
    queue_id, offset, real_topic, stored_ms = message
    broker.waiting.delays.levels.appended(queue_id, offset, real_topic)
    _wake_when_safe(broker, end, stored_ms + broker.config.store.delay_levels_ms[queue_id])


def _wake_when_safe(broker: Broker, end: int, due_ms: int) -> None:
    # With sync flush it cannot be read, and so not be delivered, before it is safe.
    broker.messages.acks.when_safe(end, lambda: broker.waiting.delays.wake_at(due_ms))


def _moved(
    message: NewMessage, topic: str, queue_id: int, properties: dict[str, str]
) -> NewMessage:
    properties[Property.REAL_TOPIC] = message.topic
    properties[Property.REAL_QUEUE_ID] = str(message.queue_id)
    text = properties_text(properties)
    return replace(message, topic=topic, queue_id=queue_id, properties=text)


def _level(properties: Mapping[str, str]) -> int:
    text = properties.get(Property.DELAY)
    if text is None:
        return 0
    if not _NUMBER.fullmatch(text):
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{text[:20]!r} is no delay level")
    return int(text)


def _delivery_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """When a message wants to be delivered; None if at once."""
    # A timer that was delivered, and is now retried or a dead letter, is not delayed again.
    if Property.TIMER_OUT_MS in properties:
        return None
    name = next((name for name in _TIMERS if name in properties), None)
    if name is None:
        return None
    text = properties[name]
    if not _NUMBER.fullmatch(text):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"{name} cannot be {text[:20]!r}")
    delivery_ms = int(text)
    if name != Property.TIMER_DELIVER_MS:
        delivery_ms = now_ms + delivery_ms * (1000 if name == Property.TIMER_DELAY_S else 1)
    if delivery_ms - now_ms > TIMER_DELAY_MS_MAX:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, f"no message waits longer than {TIMER_DELAY_MS_MAX} ms"
        )
    return delivery_ms if delivery_ms > now_ms else None


def _check_timer_count(delays: Delays) -> None:
    if delays.timers.pending_count >= TIMER_COUNT_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{TIMER_COUNT_MAX} timers are pending already")
