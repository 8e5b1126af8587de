"""What one pop has taken, from which queues, and the reply that it makes."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from roquet.broker.broker import Broker
from roquet.broker.pop.in_flight import QueueOfGroup
from roquet.broker.pop.receipts import kind_of, offsets_info, start_info, times_info, with_receipt
from roquet.net.router import Reply
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.pop import PopMessageHeader, PopMessageReplyHeader
from roquet.protocol.messages.pop_receipt import Receipt, TopicKind
from roquet.store.reading.queue_reading import ReadStatus, records_in

NOTHING: Final = "NO_MESSAGE_IN_QUEUE"
FOUND: Final = ReadStatus.FOUND

_OFFSET_START: Final = 20  # of its offset, in a record
_OFFSET_END: Final = 28


class Batch(NamedTuple):
    """Messages of one queue."""

    queue: QueueOfGroup
    offsets: Sequence[int]
    # Their records, one after the other: most pops hand them on as they are.
    body: bytes
    # How often each was popped before, of ordered pops.
    times: Sequence[int] = ()

    @property
    def records(self) -> list[bytes]:
        return records_in(self.body)


@final
class Taken:
    def __init__(self, broker: Broker, pop: PopMessageHeader, revive_queue_id: int) -> None:
        self._broker = broker
        self._pop = pop
        self._revive_queue_id = revive_queue_id
        self.pop_time_ms: Final = broker.clock.now_ms()
        self.batches: list[Batch] = []
        self.count = 0
        self.size_left = broker.config.store.read_size_max_in_memory
        # Messages that are still there.
        self.rest_count = 0
        # Just past the last record of the journal that this pop wrote: when the log is safe up to
        # here, the messages may be given to a client.
        self.end = 0
        # Whether a filter, or a message group, has seen only a part of what there is.
        self.has_more_to_see = False

    @property
    def count_left(self) -> int:
        return self._pop.max_msg_nums - self.count if self.size_left > 0 else 0

    def add(self, batch: Batch, end: int) -> None:
        self.batches.append(batch)
        self.count += len(batch.offsets)
        self.size_left -= len(batch.body)
        self.end = end

    def receipts(self, batch: Batch) -> list[Receipt]:
        """One for each of its messages."""
        return [self.receipt(batch, offset) for offset in batch.offsets]

    def receipt(self, batch: Batch, offset: int) -> Receipt:
        return Receipt(
            batch.offsets[0],
            self.pop_time_ms,
            self._pop.invisible_time,
            self._revive_queue_id,
            kind_of(batch.queue.topic),
            self._broker.config.broker_name,
            batch.queue.queue_id,
            offset,
        )

    def _body(self, batch: Batch) -> bytes:
        """As clients get it: records of retry topics look like those of the topic itself."""
        if kind_of(batch.queue.topic) == TopicKind.TOPIC or self._broker.config.show_retry_topics:
            return batch.body
        return b"".join(
            [
                with_receipt(record, self._pop.topic, receipt)
                for record, receipt in zip(batch.records, self.receipts(batch), strict=True)
            ]
        )

    def reply(self) -> Reply:
        """With the messages, or without any."""
        batches = [(kind_of(each.queue.topic), each) for each in self.batches]
        header = PopMessageReplyHeader(
            pop_time=self.pop_time_ms,
            invisible_time=self._pop.invisible_time,
            revive_qid=self._revive_queue_id,
            rest_num=self.rest_count,
            start_offset_info=";".join(
                [start_info(kind, each.queue.queue_id, each.offsets[0]) for kind, each in batches]
            ),
            msg_offset_info=";".join(
                [offsets_info(kind, each.queue.queue_id, each.offsets) for kind, each in batches]
            ),
            order_count_info=";".join(
                [
                    times_info(kind, each.queue.queue_id, each.offsets, each.times)
                    for kind, each in batches
                ]
            )
            if self._pop.order
            else None,
        )
        if not self.count:
            self._broker.statistics.count_miss()
            return Reply(ResponseCode.POLLING_TIMEOUT, header, remark=NOTHING)
        body = b"".join(map(self._body, self.batches))
        self._broker.statistics.count_get(
            self._pop.consumer_group, self._pop.topic, self.count, len(body)
        )
        return Reply(ResponseCode.SUCCESS, header, body, remark=FOUND.value)


def offset_of(record: bytes) -> int:
    return int.from_bytes(record[_OFFSET_START:_OFFSET_END])
