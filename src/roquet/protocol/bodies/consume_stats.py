"""How far consumers have come (208, 303, 317), and what a broker counts (315)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.queue_table import MessageQueue, QueueTable
from roquet.protocol.fields import Int64


class ConsumeOffsets(Body, kw_only=True):
    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    last_timestamp: Int64 = always(0)
    pull_offset: Int64 = 0


class ConsumeStats(Body, kw_only=True):
    """Reply to 208."""

    consume_tps: float = always(0.0)
    offset_table: QueueTable[ConsumeOffsets] = always(QueueTable())


class ConsumeStatsList(Body, kw_only=True):
    """Reply to 317: for each group the statistics of each of its topics."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = always([])
    total_diff: Int64 = always(0)
    total_inflight_diff: Int64 = 0


class ConsumeTimeSpan(Body, kw_only=True):
    consume_time_stamp: Int64 = always(0)
    delay_time: Int64 = always(0)
    max_time_stamp: Int64 = always(0)
    message_queue: MessageQueue
    min_time_stamp: Int64 = always(0)


class ConsumeTimeSpans(Body, kw_only=True):
    """Reply to 303."""

    consume_time_span_set: list[ConsumeTimeSpan] = always([])


class BrokerStatsItem(Body, kw_only=True):
    avgpt: float = always(0.0)  # average of the counted value
    sum: Int64 = always(0)
    tps: float = always(0.0)


class BrokerStats(Body, kw_only=True):
    """Reply to 315."""

    stats_day: BrokerStatsItem = always(BrokerStatsItem())
    stats_hour: BrokerStatsItem = always(BrokerStatsItem())
    stats_minute: BrokerStatsItem = always(BrokerStatsItem())
