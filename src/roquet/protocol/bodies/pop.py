"""POP consumption of 5.x: queues that the broker assigns (400-402), batched acks (200151), and the
bodies of what a broker notes in its revive topic: check points and acks.
"""

from enum import StrEnum

import msgspec

from roquet.protocol.bodies.body import Body, MessageQueue, always
from roquet.protocol.fields import Int32, Int64


class MessageRequestMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


class AssignmentQuery(Body, kw_only=True):
    """Request 400."""

    client_id: str
    consumer_group: str
    message_model: str | None = None
    strategy_name: str | None = None
    topic: str


class QueueAssignment(Body, kw_only=True):
    attachments: dict[str, str] | None = None
    message_queue: MessageQueue
    mode: str = always(MessageRequestMode.PULL)


class QueueAssignments(Body, kw_only=True):
    """Reply to 400."""

    message_queue_assignments: list[QueueAssignment] = always([])


class RequestModeSetting(Body, kw_only=True):
    """Request 401."""

    consumer_group: str
    mode: str = always(MessageRequestMode.PULL)
    pop_share_queue_num: Int32 = always(0)
    topic: str


class RequestModeTable(Body, kw_only=True):
    """Reply to 402: topic -> group -> setting."""

    message_request_mode_map: dict[str, dict[str, RequestModeSetting]] = always({})


class BatchAck(Body, kw_only=True):
    """Messages that were popped together."""

    # Bit n of byte n // 8, lowest first, acknowledges the message at `start_offset + n`.
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


class CheckPointBody(Body, kw_only=True):
    """Messages of one queue that were popped together: a record with the tag ck."""

    # Bit n is set if the message of the n-th difference is acknowledged. An int32 of Java's.
    acked_bits: Int32 = always(0, name="bm")
    broker_name: str | None = msgspec.field(name="bn", default=None)
    consumer_group: str = msgspec.field(name="c")
    # What is added to `start_offset`; without any, the messages follow one another.
    differences: list[Int32] | None = msgspec.field(name="d", default=None)
    invisible_time: Int64 = msgspec.field(name="it")
    count: Int32 = msgspec.field(name="n")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    revive_time: Int64 = always(0, name="reviveTime")  # both times together; readers add them
    revive_offset: Int64 = always(0, name="ro")
    put_again_times: str | None = msgspec.field(name="rp", default=None)
    start_offset: Int64 = msgspec.field(name="so")
    is_suspended: bool = always(default=False, name="sp")
    topic: str = msgspec.field(name="t")


class AckBody(Body, kw_only=True):
    """Messages of one check point that are acknowledged: a record with the tag ack or bAck."""

    ack_offset: Int64 = always(-1, name="ao")
    # Of several, with the tag bAck.
    ack_offsets: list[Int64] | None = msgspec.field(name="aol", default=None)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    consumer_group: str = msgspec.field(name="c")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")


class OrderedPopBody(Body, kw_only=True):
    """Messages of one queue that were popped in order: a record of ours, with the tag oCk."""

    attempt_id: str = always("", name="a")
    broker_name: str | None = msgspec.field(name="bn", default=None)
    consumer_group: str = msgspec.field(name="c")
    invisible_time: Int64 = msgspec.field(name="it")
    offsets: list[Int64] = msgspec.field(name="o")
    # How often each of them was popped before.
    times: list[Int32] = msgspec.field(name="oc")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    is_suspended: bool = always(default=False, name="sp")
    topic: str = msgspec.field(name="t")


class OrderedAckBody(Body, kw_only=True):
    """Messages of one queue that need not be popped in order again: with the tag oAck."""

    ack_offsets: list[Int64] = msgspec.field(name="aol")
    broker_name: str | None = msgspec.field(name="bn", default=None)
    consumer_group: str = msgspec.field(name="c")
    queue_id: Int32 = msgspec.field(name="q")
    topic: str = msgspec.field(name="t")
