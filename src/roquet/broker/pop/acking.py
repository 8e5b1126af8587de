"""What becomes of messages that are out: acknowledged, or out for a longer or shorter time.

Receipts of ordered pops are told from others by their queue of the journal. Whoever acknowledges
waits with the answer until the log is safe up to the end that is returned here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal_writing import JOURNAL_QUEUE_ID
from roquet.broker.pop.ordered_popping import ack_in_order, change_in_order
from roquet.protocol.bodies.pop import BatchAck
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, Receipt

# Of the bits in which a batch acknowledges messages. A filter, or message groups, may leave out so
# many between the first and the last of one pop.
ACK_SIZE_MAX: Final = 8_192


class ChangedTime(NamedTuple):
    """The receipt that counts from now on, and the end of the log."""

    receipt: Receipt
    end: int


def acknowledge(
    broker: Broker, queue: QueueOfGroup, receipt: Receipt, offsets: Sequence[int]
) -> int:
    """These messages, popped together with that of the receipt, do not come again; the end of the
    log. Nothing happens to those that are not out under this receipt. Raises Refused."""
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        return ack_in_order(broker, queue, receipt.pop_time_ms, offsets)
    key = PopKey(queue, receipt.start_offset, receipt.pop_time_ms)
    return broker.waiting.pops.note_acks(key, offsets)


def acknowledge_all(broker: Broker, acks: Iterable[BatchAck]) -> int:
    """The same for messages of many pops; 0 if none of them is in its queue. Raises Refused: the
    acks before the refused one are noted, and once more is no harm."""
    end = 0
    for ack in acks:
        offsets = _acked_offsets(broker, ack)
        if not offsets:
            continue
        queue = QueueOfGroup(ack.consumer_group, ack.topic, ack.queue_id)
        if ack.revive_queue_id == ORDERED_QUEUE_ID:
            end = ack_in_order(broker, queue, ack.pop_time, offsets)
        else:
            key = PopKey(queue, ack.start_offset, ack.pop_time)
            end = broker.waiting.pops.note_acks(key, offsets)
    return end


def _acked_offsets(broker: Broker, ack: BatchAck) -> Sequence[int]:
    """Those that the queue has."""
    low = broker.store.min_offset(ack.topic, ack.queue_id)
    high = broker.store.max_offset(ack.topic, ack.queue_id)
    bits = int.from_bytes(ack.acked[:ACK_SIZE_MAX], "little")
    start = ack.start_offset
    if bits & bits + 1 == 0:
        # All from the first to the last, as most clients acknowledge what they popped.
        return range(max(low, start), min(high, start + bits.bit_length()))
    return [offset for offset in _set_bits(ack) if low <= offset < high]


def _set_bits(ack: BatchAck) -> Iterator[int]:
    for index, byte in enumerate(ack.acked[:ACK_SIZE_MAX]):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                yield ack.start_offset + 8 * index + bit


def change_time(
    broker: Broker,
    queue: QueueOfGroup,
    receipt: Receipt,
    invisible_ms: int,
    *,
    is_suspended: bool = False,
) -> ChangedTime:
    """The message comes again after this time from now on, unless it is acknowledged; with
    `is_suspended` that does not count as one more delivery. Raises Refused."""
    now_ms = broker.clock.now_ms()
    old = PopKey(queue, receipt.start_offset, receipt.pop_time_ms)
    receipt = receipt._replace(start_offset=receipt.offset)
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        end = change_in_order(broker, queue, receipt, invisible_ms, is_suspended=is_suspended)
        since_ms = now_ms - receipt.pop_time_ms
        return ChangedTime(receipt._replace(invisible_ms=since_ms + invisible_ms), end)
    journal = broker.waiting.pops
    new = journal.in_flight.free_key(PopKey(queue, receipt.offset, now_ms))
    end = journal.note_change(old, new, invisible_ms, is_suspended=is_suspended)
    return ChangedTime(
        receipt._replace(
            pop_time_ms=new.pop_time_ms,
            invisible_ms=invisible_ms,
            revive_queue_id=JOURNAL_QUEUE_ID,
        ),
        end,
    )
