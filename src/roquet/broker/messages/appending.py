"""Appending a message to the store, and everything that follows from it.

Whoever stores a message on behalf of a peer comes through here: sends, and what the broker itself
writes later for delays, retries and transactions.
"""

import logging

from roquet.broker.broker import Broker
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.store.appends import Appended, AppendedBatch
from roquet.store.errors import StoreUnavailable, TooManyFiles
from roquet.store.replica_log import Grown

log = logging.getLogger(__name__)


def append_draft(broker: Broker, topic: str, draft: RecordDraft) -> Appended:
    """Stores one message and wakes those who wait. Raises Refused; then nothing was stored."""
    try:
        appended = broker.store.append(draft)
    except (TooLarge, StoreUnavailable) as error:
        raise _noted_refusal(broker, error, 1) from None
    broker.statistics.count_put(topic, 1, appended.size)
    _announce(broker, topic, draft.queue_id, appended.physical_offset + appended.size)
    return appended


def append_batch(broker: Broker, topic: str, batch: RecordBatch) -> AppendedBatch:
    """The same for messages of one queue, of which all are stored or none."""
    try:
        appended = broker.store.append_batch(batch)
    except (TooLarge, StoreUnavailable) as error:
        raise _noted_refusal(broker, error, len(batch.sizes)) from None
    broker.statistics.count_put(topic, len(batch.sizes), appended.size)
    _announce(broker, topic, batch.queue_id, appended.physical_offsets[0] + appended.size)
    return appended


def take_copied(broker: Broker, grown: Grown) -> None:
    """A slave has more of the log: its tables follow, and those who wait there are woken."""
    if broker.table_log.grown(grown):
        broker.replication.tables_wanted.set()
    end = broker.store.log_end
    for topic, queue_id in grown.queues:
        name = topic.decode()
        if broker.topics.see_queue(name, queue_id):
            log.info("topic %s has queue %d: its messages came before its settings", name, queue_id)
            broker.replication.tables_wanted.set()
        _announce(broker, name, queue_id, end)


def refusal(error: TooLarge | StoreUnavailable) -> Refused:
    if isinstance(error, TooLarge):
        return Refused(ResponseCode.MESSAGE_ILLEGAL, str(error))
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    if isinstance(error, TooManyFiles):
        # Only for this queue, and only for now.
        code = ResponseCode.SYSTEM_BUSY
    return Refused(code, str(error))


def _noted_refusal(broker: Broker, error: TooLarge | StoreUnavailable, count: int) -> Refused:
    broker.statistics.count_failed_put()
    if isinstance(error, StoreUnavailable):
        broker.refused_writes.note(error, count)
    return refusal(error)


def _announce(broker: Broker, topic: str, queue_id: int, end: int) -> None:
    if broker.acks.is_awaited:
        # What is not safe cannot be read, so there is nothing to announce yet.
        broker.long_polls.announce_when_safe(topic, queue_id, end)
    else:
        broker.long_polls.announce(topic, queue_id)
