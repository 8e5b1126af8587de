"""Taking messages that were delayed to where they belong, when they are due.

One task delivers in turns. While others send, it rests four times as long as a turn took: they
keep four fifths of the time. Else it goes on at once.
"""

import asyncio
import logging
from functools import partial
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.names import CLOSED_TOPICS
from roquet.broker.putting import put
from roquet.broker.turn import Turn
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.message import Property
from roquet.protocol.properties import PROPERTIES_SIZE_MAX, property_of_bytes
from roquet.protocol.record import CHECKSUM_SIZE, RecordDraft, read_record

log = logging.getLogger(__name__)

_REST: Final = 4
_RETRY_PAUSE_S: Final = 1.0
_REAL_TOPIC: Final = Property.REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = Property.REAL_QUEUE_ID.encode()
_CLOSED_TOPICS: Final = frozenset(topic.encode() for topic in CLOSED_TOPICS)


async def deliver_delayed(broker: Broker) -> None:
    """Never returns."""
    deliver = partial(redeliver, broker)
    clock = broker.clock
    log_end = 0
    while True:
        await broker.delays.until_due()
        # Whether anybody else wrote since the last turn.
        is_alone = broker.store.log_end == log_end
        started_s = clock.monotonic_s()
        try:
            broker.delays.deliver(Turn(deliver))
        except Refused as refused:
            log.warning("delayed messages wait on: %s", refused)
            await asyncio.sleep(_RETRY_PAUSE_S)
            continue
        log_end = broker.store.log_end
        await asyncio.sleep(0 if is_alone else _REST * (clock.monotonic_s() - started_s))


def save_progress(broker: Broker) -> None:
    """To be called every now and then: what is on disk by now may be said to be delivered."""
    broker.delays.settle(broker.store.synced_end)
    broker.delay_saver.save_soon()
    broker.timer_saver.save_soon()


def redeliver(broker: Broker, record: bytes) -> None:
    """Stores a message that waited where it belongs.

    Raises Refused when nothing can be stored now. A message that can never be stored is passed
    over, with a line in the log that says where it lies.
    """
    try:
        draft = redelivery(record, has_checksum=broker.config.store.write_checksums)
        put(broker, draft.topic.decode(), draft)
    except (ProtocolError, Refused) as error:
        if isinstance(error, Refused) and error.code is not ResponseCode.MESSAGE_ILLEGAL:
            raise
        log.error("not delivered: %s", error)  # noqa: TRY400  It says it all.


def redelivery(record: bytes, *, has_checksum: bool) -> RecordDraft:
    """The message of a record as it was, but for its place. Raises BadMessage."""
    message = read_record(record)
    properties = message.raw_properties
    topic = property_of_bytes(properties, _REAL_TOPIC)
    queue_id = property_of_bytes(properties, _REAL_QUEUE_ID)
    if topic is None or topic in _CLOSED_TOPICS or queue_id is None or not queue_id.isdigit():
        raise BadMessage(f"the message at {message.physical_offset} belongs nowhere")
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
        # Whoever stored it may have used the last byte that there is for properties.
        has_checksum=has_checksum and len(properties) + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX,
    )
