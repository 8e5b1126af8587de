"""A look into one consume queue (321), and how a copy of the queues is doing (354)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.subscription_data import SubscriptionData
from roquet.protocol.fields import Int32, Int64


class ConsumeQueueEntry(Body, kw_only=True):
    bit_map: str | None = None
    eval: bool = always(False)  # whether the group's filter lets it pass
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64


class ConsumeQueueView(Body, kw_only=True):
    """Reply to 321."""

    filter_data: str | None = None
    max_queue_index: Int64 = always(0)
    min_queue_index: Int64 = always(0)
    queue_data: list[ConsumeQueueEntry] = always([])
    subscription_data: SubscriptionData | None = None


class QueueCopyCheck(Body, kw_only=True):
    """Reply to 354."""

    check_result: str | None = None
    check_status: Int32 = always(0)
