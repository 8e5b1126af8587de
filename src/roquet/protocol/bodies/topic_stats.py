"""How much a topic holds, queue by queue (202)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.queue_table import QueueTable
from roquet.protocol.fields import Int64


class TopicOffsets(Body, kw_only=True):
    last_update_timestamp: Int64 = always(0)
    max_offset: Int64 = always(0)
    min_offset: Int64 = always(0)


class TopicStats(Body, kw_only=True):
    """Reply to 202."""

    offset_table: QueueTable[TopicOffsets] = always(QueueTable())
    topic_put_tps: float = 0.0
