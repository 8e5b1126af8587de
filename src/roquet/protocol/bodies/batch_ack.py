"""Many messages of the pop kind acknowledged at once (200151); names are short to save bytes."""

import msgspec

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.fields import Int32, Int64


class BatchAck(Body, kw_only=True):
    """Messages that were popped together."""

    # Bit n of byte n // 8, lowest first, says that the message at `start_offset + n` is done.
    acked: bytes = msgspec.field(name="b")
    broker_name: str | None = msgspec.field(name="bn", default=None)
    consumer_group: str = msgspec.field(name="c")
    invisible_time: Int64 = msgspec.field(name="it")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    retry: str = always("0", name="r")  # "1" on the retry topic
    revive_queue_id: Int32 = msgspec.field(name="rq")
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")


class BatchAckRequest(Body, kw_only=True):
    """Request 200151."""

    acks: list[BatchAck] = always([])
    broker_name: str | None = None
