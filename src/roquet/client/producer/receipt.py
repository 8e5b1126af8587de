"""What a producer returns: a receipt for each message that is stored, and counts of all."""

from dataclasses import dataclass
from typing import final

import msgspec

from roquet.client.errors import ClientError, SendUnknown
from roquet.client.queue_ref import QueueRef


@final
class SendReceipt(msgspec.Struct, frozen=True, gc=False):
    """The broker has the message, as safely as it is set up to keep messages.

    `message_id` was given by the producer and stays the same wherever the message goes;
    `offset_id` is its position in the log, for tools.

    For example:

        with Producer("127.0.0.1:9876", "shop") as producer:
            receipt = producer.send(Message("orders", b"one coffee"))
            print(receipt.message_id, receipt.queue.broker_name, receipt.queue_offset)
    """

    message_id: str
    queue: QueueRef
    queue_offset: int
    offset_id: str
    transaction_id: str | None = None
    # 5.x gives one for a delayed message, to recall it with.
    recall_handle: str | None = None
    # The broker's name of its region, and whether it wants messages to be traced.
    region: str | None = None
    is_traced: bool = True


@final
class BatchReceipt(msgspec.Struct, frozen=True, gc=False):
    """The broker has all messages of a batch, from `first_offset` of one queue on."""

    queue: QueueRef
    first_offset: int
    message_count: int


@dataclass(slots=True)
class ProducerStatistics:
    """Counts of messages since the producer was made."""

    stored_count: int = 0
    stored_size: int = 0  # of bodies, as they were sent
    failed_count: int = 0
    unknown_count: int = 0
    oneway_count: int = 0
    # Requests beyond the first of a message or batch.
    retry_count: int = 0
    # Sends in flight now, a batch counting as one, and those that wait for room.
    in_flight_count: int = 0
    waiting_count: int = 0
    last_error: str | None = None

    def note_error(self, error: ClientError, count: int) -> None:
        if isinstance(error, SendUnknown):
            self.unknown_count += count
        else:
            self.failed_count += count
        self.last_error = str(error)
