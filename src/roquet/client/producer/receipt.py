"""What a producer gets for a message: its ids, and where it lies."""

from typing import final

import msgspec

from roquet.client.queue_ref import QueueRef


@final
class SendReceipt(msgspec.Struct, frozen=True, gc=False):
    """The broker has the message, as safely as it is set up to keep messages.

    `message_id` was given by the producer and stays the same wherever the message goes;
    `offset_id` says where it lies and is of use to tools.

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
    # 5.x gives one for a message that waits: it can be called back with it.
    recall_handle: str | None = None
    # The broker's name for where it is, and whether it wants messages to be traced.
    region: str | None = None
    is_traced: bool = True


@final
class BatchReceipt(msgspec.Struct, frozen=True, gc=False):
    """The broker has all messages of a batch, from `first_offset` of one queue on."""

    queue: QueueRef
    first_offset: int
    message_count: int
